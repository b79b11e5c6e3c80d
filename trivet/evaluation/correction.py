"""Correction of a response without an LLM: its unsupported sentences go, or get a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trivet.evaluation.postprocessing import with_support
from trivet.records import Evaluation, SentenceVerdict, Span
from trivet.report.shown_sources import find_sources

CorrectionMode = Literal["drop", "quote"]


@dataclass(frozen=True, slots=True)
class Correction:
    """A response whose unsupported sentences were dropped, or are followed by a source.

    Attributes:
        text: The corrected response; empty if no sentence is supported and all were dropped.
        verdict: Verdict on the response as it was.
        changed: Unsupported sentences, by characters of the response as it was.
        kept: Share of the characters of the sentences that ``text`` still holds.
    """

    text: str
    verdict: Evaluation
    changed: tuple[Span, ...]
    kept: float


def correct(response: str, verdict: Evaluation, mode: CorrectionMode) -> Correction:
    """Return the corrected response; ``Evaluator.correct`` documents the arguments.

    Raises:
        BackendError: The bundle has no support head.
        ValueError: ``mode`` is unknown.
    """
    if mode not in ("drop", "quote"):
        raise ValueError(f"mode must be 'drop' or 'quote', got {mode!r}")
    with_support(verdict.threshold, "sentences")
    changed = tuple(Span(s.start, s.end) for s in verdict.sentences if s.supported is False)
    if mode == "drop":
        text = _without(response, verdict.sentences)
        kept = sum(s.end - s.start for s in verdict.sentences if s.supported is not False)
        whole = sum(s.end - s.start for s in verdict.sentences)
        return Correction(text, verdict, changed, kept / whole if whole else 1.0)
    pieces, end = [], 0
    for sentence, sources in zip(verdict.sentences, find_sources(verdict), strict=True):
        pieces.append(response[end : sentence.end])
        end = sentence.end
        if sentence.supported is False and sources:
            nearest = verdict.contexts[sources[0].context].sentences[sources[0].sentence]
            pieces.append(f" [source: {nearest.text}]")
    return Correction("".join([*pieces, response[end:]]), verdict, changed, 1.0)


def _without(response: str, sentences: Sequence[SentenceVerdict]) -> str:
    """Return a response without its unsupported sentences.

    Between two sentences that were not neighbours is the widest of the gaps between them, so that
    a paragraph stays one.
    """
    if not sentences:
        return response
    ends = [(0, 0), *((s.start, s.end) for s in sentences), (len(response), len(response))]
    gaps = [response[end:start] for (_, end), (start, _) in pairwise(ends)]
    pieces: list[str] = []
    gap = gaps[0]
    for sentence, after in zip(sentences, gaps[1:], strict=True):
        if sentence.supported is not False:
            pieces += [gap if pieces else gaps[0], sentence.text]
            gap = after
        else:
            gap = max(gap, after, key=lambda between: (between.count("\n"), len(between)))
    return "".join([*pieces, gaps[-1]]) if pieces else ""
