"""Citation marks of a response, such as ``[1]``, checked against the sources of its sentences.

As in ALCE (Gao et al., EMNLP 2023, arXiv 2305.14627), where an NLI model decides per mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trivet.records import CitationMark, Citations, Evaluation
from trivet.report.sources import MARK, find_sources

_LONGEST_RANGE = 20  # contexts in one mark; "[1-2000]" is no citation


def check_citations(verdict: Evaluation) -> Citations | None:
    """Return the citation marks of a response and their measures; None if it has no mark.

    ``[1]`` is the first context; ``[1, 3]`` and ``[1-3]`` name several. Brackets at the beginning
    of a sentence number a list and are no marks.
    """
    marked = [list(_marks(sentence.text)) for sentence in verdict.sentences]
    if not any(marked):
        return None
    marks, cited, sourced = list[CitationMark](), 0, 0
    for sentence, own, sources in zip(
        verdict.sentences, marked, find_sources(verdict), strict=True
    ):
        right = {source.context for source in sources} if sentence.supported is True else set[int]()
        marks += [
            CitationMark(sentence.start + start, sentence.start + end, context, context in right)
            for start, end, context in own
        ]
        cited += any(context in right for _, _, context in own)
        sourced += bool(right)
    precision = sum(mark.supported for mark in marks) / len(marks)
    return Citations(tuple(marks), precision, cited / sourced if sourced else None)


def _marks(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and context of each mark; one of several contexts is yielded for each."""
    for found in MARK.finditer(text):
        if not MARK.sub("", text[: found.start()]).strip():
            continue
        for part in re.split("[,;]", found[1]):
            ends = [int(digits) for digits in re.findall(r"\d+", part)]
            for number in range(ends[0], ends[-1] + 1)[:_LONGEST_RANGE]:
                yield found.start(), found.end(), number - 1
