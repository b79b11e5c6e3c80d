"""Names in a text: words with capitals inside a sentence, and acronyms.

The rules are for English. A capitalised word at the start of a sentence is any word, unless the
sentence is nothing but a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from trivet.data.dates import MONTHS_AND_DAYS
from trivet.records import Span

_BEFORE = 40  # characters before a name in which the start of its sentence is looked for
_NAME_WORD = r"(?:(?:[A-Z]\.){2,}[A-Z]?|[A-Z](?:[a-zà-öø-ÿ'’-]+|\.)?[A-Z]?[\wà-öø-ÿ'’&-]*)"
_NAMES = re.compile(rf"(?<![\w’']){_NAME_WORD}(?:\s(?:(?:of|the|de|van|von|and)\s)?{_NAME_WORD})*")
_STARTS = re.compile(
    r"(?:^\s*|[.!?:;\n]['\"”’)\]*]*\s*|[\"“‘(\[*#>|•-]\s*|\n\s*|(?:^|\s)(?:\d{1,3}|[A-Za-z])[.)]\s*)$"
)
_NAME_WORDS = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
# Capitalised words that are no names.
_COMMON = MONTHS_AND_DAYS | frozenset(
    [
        "i",
        "i'm",
        "i'll",
        "i'd",
        "i've",
        "a",
        "an",
        "the",
        "it",
        "its",
        "he",
        "she",
        "they",
        "we",
        "you",
        "this",
        "that",
        "these",
        "those",
        "there",
        "here",
        "if",
        "when",
        "while",
        "where",
        "what",
        "which",
        "who",
        "how",
        "why",
        "yes",
        "no",
        "not",
        "and",
        "or",
        "but",
        "so",
        "as",
        "at",
        "by",
        "for",
        "from",
        "in",
        "into",
        "of",
        "on",
        "to",
        "with",
        "passage",
        "passages",
        "context",
        "contexts",
        "document",
        "documents",
        "source",
        "sources",
        "step",
        "note",
        "mr",
        "mrs",
        "ms",
        "dr",
        "prof",
        "st",
        "jan",
        "feb",
        "mar",
        "apr",
        "jun",
        "jul",
        "aug",
        "sep",
        "sept",
        "oct",
        "nov",
        "dec",
    ]
)
_ENDINGS = re.compile(r"['’]s$|[.'’]")


def find_names(text: str) -> Iterator[tuple[Span, tuple[str, ...]]]:
    """Yield the names of a text with the keys of their words, in order."""
    for match in _NAMES.finditer(text):
        start, end = match.span()
        words = [(m[0], start + m.start()) for m in _NAME_WORDS.finditer(match[0])]
        # The first word of a sentence is any word, unless the sentence is nothing but a name.
        at_start = bool(_STARTS.search(text[max(0, start - _BEFORE) : start]))
        if at_start and words and not _is_acronym(words[0][0]):
            alone = len(words) > 1 and not any(map(str.isalnum, text[:start] + text[end:]))
            words = words if alone else words[1:]
        while words and words[0][0].casefold() in _COMMON and not _is_acronym(words[0][0]):
            words = words[1:]
        parts = [name_key(part) for word, _ in words for part in word.split("-")]
        if any(parts):
            last, at = words[-1]
            span = Span(words[0][1], at + len(last))
            yield span, tuple(filter(None, parts))


def _is_acronym(word: str) -> bool:
    return sum(map(str.isupper, word)) > 1 and word.upper() == word


@lru_cache(maxsize=10_000)  # a text repeats its words
def name_key(word: str) -> str:
    """Return the form in which a name's word is compared: lower case, no possessive or full stop.

    A letter or two may differ at the end, as in "Canada" and "Canadian".
    """
    low = _ENDINGS.sub("", word.casefold())
    return low if len(low) <= 4 else low[:5]
