"""Citation marks of a response, such as ``[1]``, checked against the sources of its sentences.

As in ALCE (Gao et al., EMNLP 2023, arXiv 2305.14627), where an NLI model decides per mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trivet.records import CitationMark, Citations, ContextVerdict, Evaluation
from trivet.report.sources import MARK, find_sources

_LONGEST_RANGE = 20  # contexts in one mark; "[1-2000]" is no citation
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,300})\]|\(([^()\n]{1,300})\)")
_AUTHORS = re.compile(r"(?P<authors>[^\W\d].*?),?\s+(?P<year>(?:1[5-9]|20)\d\d)[a-z]?")
_WORD = re.compile(r"\w+")
_LINKING = frozenset({"and", "et", "al", "see", "e", "g", "cf"})  # words between authors

Mark = tuple[int, int, tuple[int, ...]]
"""Start, end and the contexts of a mark; of several, which all have its name, one is meant."""


def check_citations(verdict: Evaluation) -> Citations | None:
    """Return the citation marks of a response and their measures; None if it has no mark.

    ``[1]`` is the first context; ``[1, 3]`` and ``[1-3]`` name several. ``[doc-7]`` is the context
    with this id or title, ``(Smith 2020)`` one with these words in its title. Marks at the
    beginning of a sentence number a list and are no marks.
    """
    named = _Named(verdict.contexts)
    marked = [list(named.marks(sentence.text)) for sentence in verdict.sentences]
    if not any(marked):
        return None
    marks, cited, sourced = list[CitationMark](), 0, 0
    for sentence, own, sources in zip(
        verdict.sentences, marked, find_sources(verdict), strict=True
    ):
        right = {source.context for source in sources} if sentence.supported is True else set[int]()
        found = [
            CitationMark(
                sentence.start + start,
                sentence.start + end,
                next((each for each in contexts if each in right), contexts[0]),
                not right.isdisjoint(contexts),
            )
            for start, end, contexts in own
        ]
        marks += found
        cited += any(mark.supported for mark in found)
        sourced += bool(right)
    precision = sum(mark.supported for mark in marks) / len(marks)
    return Citations(tuple(marks), precision, cited / sourced if sourced else None)


class _Named:
    """The contexts of a verdict by the names that marks may give them."""

    def __init__(self, contexts: Sequence[ContextVerdict]) -> None:
        self._count = len(contexts)
        self._by_name: dict[str, tuple[int, ...]] = {}
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
        for found in _BRACKETS.finditer(text):
            begun = begun or bool(text[reached : found.start()].strip())
            reached = found.end()
            inside, in_round = found[1], found[2]
            if inside is not None:
                contexts = list(self._in_brackets(found[0], inside))
            else:
                contexts = list(self._in_round(in_round))
            if begun:
                yield from ((found.start(), found.end(), each) for each in contexts)
            begun = begun or not contexts

    def _in_brackets(self, mark: str, inside: str) -> Iterator[tuple[int, ...]]:
        """Yield the contexts that a mark in brackets names."""
        numbered = MARK.fullmatch(mark)
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
        """Yield the contexts whose titles have the authors and the year of a mark."""
        for part in inside.split(";"):
            found = _AUTHORS.fullmatch(part.strip())
            if found is None:
                continue
            wanted = (_words(found["authors"]) - _LINKING) | {found["year"]}
            if len(wanted) > 1 and (
                named := tuple(n for n, title in enumerate(self._titles) if wanted <= title)
            ):
                yield named


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
