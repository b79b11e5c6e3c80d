"""Names in a text: capitalised words inside a sentence, and acronyms. The rules are for English."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from trivet.data.value_words import DAYS, DEMONYMS, MONTH_NUMBERS
from trivet.records import Span

Parts = tuple[str, ...]
_BEFORE = 40  # characters before a name that are looked at
_NAME_WORD = r"(?:(?:[A-Z]\.){2,}[A-Z]?|[A-Z](?:[a-zà-öø-ÿ'’-]+|\.)?[A-Z]?[\wà-öø-ÿ'’&-]*)"
_NAMES = re.compile(rf"(?<![\w’']){_NAME_WORD}(?:\s(?:(?:of|the|de|van|von|and)\s)?{_NAME_WORD})*")
_STARTS = re.compile(
    r"(?:^\s*|[.!?:;\n]['\"”’)\]*]*\s*|[\"“‘(\[*#>|•-]\s*|\n\s*|(?:^|\s)(?:\d{1,3}|[A-Za-z])[.)]\s*)$"
)
_HEAD_END = re.compile(r"\s{0,3}(?::\s|\|)")  # of the head of a table, or before a list
_NAME_WORDS = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_NO_NAMES = frozenset((*MONTH_NUMBERS, *DAYS)).union(
    """
    i i'm i'll i'd i've a an the it its he she they we you this that these those there here if
    when while where what which who how why yes no not and or but so as at by for from in into
    of on to with passage passages context contexts document documents source sources step note
    mr mrs ms dr prof st
    """.split()  # noqa: SIM905 (one word a line would be hard to read)
)
_POSSESSIVE = re.compile(r"['’]s$")
_INFLECTION = re.compile(r"(?<=\w{5})(?:ian|an|ese|ish|ic|[nsaeioy])+$")


def find_names(text: str) -> Iterator[tuple[Span, Parts]]:
    """Yield the names of a text with the keys of their words, in order.

    A name is a capitalised word inside a sentence, or an acronym. At the start of a sentence such a
    word is any word, unless the sentence is nothing but a name.
    """
    edges: tuple[int, int] | None = None  # first and last letter or digit of the text
    for match in _NAMES.finditer(text):
        start, end = match.span()
        words = [(m[0], start + m.start()) for m in _NAME_WORDS.finditer(match[0])]
        at_start = bool(words and _STARTS.search(text[max(0, start - _BEFORE) : start]))
        if at_start and _HEAD_END.match(text, end):
            continue
        if at_start and not _is_acronym(words[0][0]):
            if len(words) > 1 and edges is None:
                known = [n for n, letter in enumerate(text) if letter.isalnum()]
                edges = known[0], known[-1]
            alone = edges is not None and start <= edges[0] and edges[1] < end
            words = words if len(words) > 1 and alone else words[1:]
        while words and not _is_acronym(words[0][0]):
            if words[0][0].casefold().replace("’", "'") not in _NO_NAMES:
                break
            words = words[1:]
        parts = tuple(
            key for word, _ in words for part in word.split("-") if (key := name_key(part))
        )
        if parts:
            last, at = words[-1]
            yield Span(words[0][1], at + len(last)), parts


def _is_acronym(word: str) -> bool:
    return sum(map(str.isupper, word)) > 1 and word.upper() == word


@lru_cache(maxsize=10_000)  # a text repeats its words
def name_key(word: str) -> str:
    """Return the form in which a name's word is compared: lower case, no accents or possessive.

    Endings after the fifth letter are left out: "Canada" and "Canadians" are equal, "Austria" and
    "Australia" are not; "Danish" is "Denmark".
    """
    word = word.casefold().removeprefix("v") if word[1:2].isdigit() else word.casefold()
    word = _POSSESSIVE.sub("", word)
    letters = unicodedata.normalize("NFKD", DEMONYMS.get(word, word))
    return _INFLECTION.sub("", "".join(filter(str.isalnum, letters)))
