"""Sources of response sentences, and its citation marks checked against them.

Sources are those of the evidence head, else those that share most words with each; read from a
verdict alone. A source by words is where to look, not a proof: an unsupported sentence has such
sources too, and they often say something else. Marks such as ``[1]`` are checked as in ALCE (Gao et
al., EMNLP 2023, arXiv 2305.14627), where an NLI model decides per mark.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trivet.data.written_forms import CITATION_MARK
from trivet.records import CitationMark, Citations, ContextName, Evaluation

_MAX_SOURCES = 2  # sources of one sentence
_LEAST_SHARE = 0.15  # of a sentence's words, by weight, that a source must add

_WORD = re.compile(r"\w+")


class Source(NamedTuple):
    """A context sentence, as a source of a response sentence."""

    context: int  # index of the context
    sentence: int  # index of the sentence in the verdict on this context
    share: float  # its score, or the share of the response sentence's words that it contains


def find_sources(verdict: Evaluation) -> list[tuple[Source, ...]]:
    """Return the sources of each sentence of the response, best first.

    They are its evidence. A sentence without any has up to two sources by words, of which the
    second one contains words that the first one lacks. Each word weighs ``log(1 + n / k)``,
    where k of the n context sentences contain it.
    """
    words = {
        (number, index): set(_WORD.findall(sentence.text.casefold()))
        for number, context in enumerate(verdict.contexts)
        for index, sentence in enumerate(context.sentences)
    }
    places = {
        (number, sentence.start, sentence.end): index
        for number, context in enumerate(verdict.contexts)
        for index, sentence in enumerate(context.sentences)
    }
    counts = Counter(word for inside in words.values() for word in inside)
    by_sentence = []
    for sentence in verdict.sentences:
        evidence = [
            Source(span.context, places[at], span.score)
            for span in sentence.evidence or ()
            if (at := (span.context, span.start, span.end)) in places
        ]
        if evidence:
            by_sentence.append(tuple(evidence))
            continue
        left = set(_WORD.findall(CITATION_MARK.sub(" ", sentence.text).casefold()))
        weights = {word: math.log(1 + len(words) / max(1, counts[word])) for word in left}
        total = math.fsum(weights.values())
        sources: list[Source] = []
        while words and len(sources) < _MAX_SOURCES:
            shared, best = max(
                (math.fsum(weights[word] for word in left & inside), (-at[0], -at[1]))
                for at, inside in words.items()
            )
            best = -best[0], -best[1]
            if shared <= 0 or shared < _LEAST_SHARE * total:
                break
            sources.append(Source(*best, shared / total))
            left -= words[best]
        by_sentence.append(tuple(sources))
    return by_sentence


_LONGEST_RANGE = 20  # contexts in one mark; "[1-2000]" is not a citation
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,300})\]|\(([^()\n]{1,300})\)")
_AUTHORS = re.compile(r"(?P<authors>[^\W\d].*?),?\s+(?P<year>(?:1[5-9]|20)\d\d)[a-z]?")
_CODE = re.compile(
    r"(?=.*[^\W\d])(?=.*\d)\S+"
)  # an id that is neither a number nor a word of prose
_LINKING = frozenset({"and", "et", "al", "see", "e", "g", "cf"})  # words between authors

Mark = tuple[int, int, tuple[int, ...]]
"""Start, end and the contexts of a mark; of several, which all have its name, one is meant."""


def check_citations(verdict: Evaluation) -> Citations | None:
    """Return the citation marks of a response and their measures; None if it has no mark.

    ``[1]`` is the first context; ``[1, 3]`` and ``[1-3]`` name several. ``[doc-7]`` is the context
    with this id or title, ``(doc-7)`` the one with this id if it has letters and digits, and
    ``(Smith 2020)`` one with these words in its title. Marks at the beginning of a sentence number
    a list and are not marks.
    """
    named = _Named([ContextName(context.id, context.title) for context in verdict.contexts])
    marked = [list(named.marks(sentence.text)) for sentence in verdict.sentences]
    if not any(marked):
        return None
    # A sentence may cite any of the contexts with the same text.
    texts = [tuple(sentence.text for sentence in context.sentences) for context in verdict.contexts]
    marks, cited, sourced = list[CitationMark](), 0, 0
    for sentence, spans, sources in zip(
        verdict.sentences, marked, find_sources(verdict), strict=True
    ):
        sourced_texts = [texts[source.context] for source in sources if sentence.supported]
        right = {number for number, text in enumerate(texts) if text in sourced_texts}
        checked = [
            CitationMark(
                sentence.start + start,
                sentence.start + end,
                next((number for number in contexts if number in right), contexts[0]),
                not right.isdisjoint(contexts),
            )
            for start, end, contexts in spans
        ]
        marks += checked
        cited += any(mark.supported for mark in checked)
        sourced += bool(right)
    precision = sum(mark.supported for mark in marks) / len(marks)
    return Citations(tuple(marks), precision, cited / sourced if sourced else None)


def number_citations(response: str, names: Sequence[ContextName]) -> str:
    """Return a response of equal length whose marks with names of contexts are numbered ones.

    ``[doc-7]`` becomes ``[1    ]``. A model does not know the names, and takes the year of
    ``(Smith 2020)`` for a fact that no passage has.
    """
    pieces, reached = list[str](), 0
    for start, end, contexts in _Named(names).marks(response) if names else ():
        number = str(contexts[0] + 1).ljust(end - start - 2)
        named = start >= reached and not CITATION_MARK.fullmatch(response, start, end)
        if named and len(number) == end - start - 2:
            pieces += response[reached:start], f"[{number}]"
            reached = end
    return "".join([*pieces, response[reached:]])


class _Named:
    """The contexts of a verdict by the names that marks may give them."""

    def __init__(self, contexts: Sequence[ContextName]) -> None:
        self._count = len(contexts)
        self._by_name: dict[str, tuple[int, ...]] = {}
        self._codes = {_folded(id_) for id_, _ in contexts if id_ and _CODE.fullmatch(id_)}
        self._titles: list[frozenset[str]] = []
        for number, context in enumerate(contexts):
            names = {_folded(name) for name in (context.id, context.title) if name}
            for name in names:
                self._by_name[name] = (*self._by_name.get(name, ()), number)
            self._titles.append(_words(context.title or ""))

    def marks(self, text: str) -> Iterator[Mark]:
        """Yield each mark of a sentence; one of several contexts is yielded for each."""
        begun = False  # whether there is text before
        reached = 0
        for match in _BRACKETS.finditer(text):
            begun = begun or bool(text[reached : match.start()].strip())
            reached = match.end()
            inside, in_round = match[1], match[2]
            if inside is not None:
                contexts = list(self._in_brackets(match[0], inside))
            else:
                contexts = list(self._in_round(in_round))
            if begun:
                yield from ((match.start(), match.end(), meant) for meant in contexts)
            begun = begun or not contexts

    def _in_brackets(self, mark: str, inside: str) -> Iterator[tuple[int, ...]]:
        """Yield the contexts that a mark in brackets names."""
        numbered = CITATION_MARK.fullmatch(mark)
        whole = self._by_name.get(_folded(inside))
        if whole and not (numbered and self._is_position(inside)):
            yield whole
            return
        parts = re.split("[,;]", inside)
        if not numbered and not all(self._is_known(part) for part in parts):
            return
        for part in parts:
            name = self._by_name.get(_folded(part))
            if name and not self._is_position(part):
                yield name
                continue
            ends = [int(digits) for digits in re.findall(r"\d+", part)]
            for number in range(ends[0], ends[-1] + 1)[:_LONGEST_RANGE]:
                yield (number - 1,)

    def _is_known(self, part: str) -> bool:
        return self._is_position(part) or _folded(part) in self._by_name

    def _is_position(self, part: str) -> bool:
        digits = part.strip()
        return digits.isdecimal() and 1 <= int(digits) <= self._count

    def _in_round(self, inside: str) -> Iterator[tuple[int, ...]]:
        """Yield the contexts of ids, or those whose titles have the authors and the year."""
        parts = [_folded(part) for part in re.split("[,;]", inside)]
        if all(part in self._codes for part in parts):
            yield from (self._by_name[part] for part in parts)
            return
        for part in inside.split(";"):
            match = _AUTHORS.fullmatch(part.strip())
            if match is None:
                continue
            wanted = (_words(match["authors"]) - _LINKING) | {match["year"]}
            if len(wanted) > 1 and (
                named := tuple(n for n, title in enumerate(self._titles) if wanted <= title)
            ):
                yield named


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
