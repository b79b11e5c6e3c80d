"""Judged rows, and their probabilities beside the truth: where every measure and curve starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.data.spans import mark_tokens
from trivet.measures.intervals import BoolArray, FloatArray, IntArray
from trivet.records import ContextSpan, Evaluation, FailedEvaluation, LabelledExample, Labels, Span


@dataclass(frozen=True)
class Judged:
    """An example with its labels, and the verdict on it or the failure in the verdict's place."""

    example: LabelledExample
    evaluation: Evaluation | FailedEvaluation


@dataclass(frozen=True)
class Units:
    """What was judged with a probability: responses, or their or the contexts' sentences.

    Attributes:
        rows: [n] positions, in the list given, of the rows that are compared.
        row: [U] which of these n each unit belongs to.
        probs: [U] probability of the positive class, in [0, 1].
        positive: [U] the truth.
        failed: How many rows have a truth and no verdict.
    """

    rows: IntArray
    row: IntArray
    probs: FloatArray
    positive: BoolArray
    failed: int


def judged_units(rows: Sequence[Judged]) -> dict[str, Units]:
    """Return what was judged with a probability and has a truth, by the name of the judgement.

    ``hallucination``: responses, positive = not adherent. ``support``: response sentences, positive
    = touched by an unsupported span. ``relevance``, ``utilization``: context sentences, positive =
    touched by such a span.

    Raises:
        ValueError: A verdict holds a number that is not finite.
    """
    return {
        "hallucination": _response_units(rows),
        "support": _support_units(rows),
        "relevance": _context_units(rows, "relevance", "relevant"),
        "utilization": _context_units(rows, "utilization", "utilized"),
    }


def _response_units(rows: Sequence[Judged]) -> Units:
    kept, verdicts, failed = verdicts_of(
        rows,
        known=lambda labels: labels.adherent is not None,
        judged=lambda verdict: verdict.faithfulness is not None,
    )
    scores = 1 - finite(verdicts, [verdict.faithfulness for verdict in verdicts])
    positive = np.array([rows[i].example.labels.adherent is False for i in kept], dtype=bool)
    return Units(kept, np.arange(len(kept)), scores, positive, failed)


def _support_units(rows: Sequence[Judged]) -> Units:
    kept, verdicts, failed = verdicts_of(
        rows,
        known=lambda labels: labels.unsupported is not None,
        judged=lambda verdict: verdict.faithfulness is not None,
    )
    probs, positive = [], []
    for row, verdict in zip(kept, verdicts, strict=True):
        probs.append(1 - finite([verdict], [sentence.support for sentence in verdict.sentences]))
        spans = [Span(sentence.start, sentence.end) for sentence in verdict.sentences]
        positive.append(_touched(spans, rows[row].example.labels.unsupported or ()))
    return _sentence_units(kept, probs, positive, failed)


def _context_units(rows: Sequence[Judged], name: str, label: str) -> Units:
    kept, verdicts, failed = verdicts_of(
        rows,
        known=lambda labels: getattr(labels, label) is not None,
        judged=lambda verdict: getattr(verdict, name) is not None,
    )
    probs, positive = [], []
    for row, verdict in zip(kept, verdicts, strict=True):
        sentences = [one for context in verdict.contexts for one in context.sentences]
        probs.append(finite([verdict], [getattr(one, name) for one in sentences]))
        positive.append(marked_sentences(verdict, getattr(rows[row].example.labels, label)))
    return _sentence_units(kept, probs, positive, failed)


def _sentence_units(
    kept: IntArray, probs: list[FloatArray], positive: list[BoolArray], failed: int
) -> Units:
    row = np.repeat(np.arange(len(kept)), [len(values) for values in probs])
    return Units(
        kept,
        row,
        np.concatenate([np.zeros(0), *probs]),
        np.concatenate([np.zeros(0, dtype=bool), *positive]),
        failed,
    )


def verdicts_of(
    rows: Sequence[Judged],
    known: Callable[[Labels], bool],
    judged: Callable[[Evaluation], bool],
) -> tuple[IntArray, list[Evaluation], int]:
    """Return the rows with truth and verdict, their verdicts, and how many have truth alone."""
    kept, verdicts, failed = [], [], 0
    for i, row in enumerate(rows):
        if not known(row.example.labels):
            continue
        if isinstance(row.evaluation, Evaluation) and judged(row.evaluation):
            kept.append(i)
            verdicts.append(row.evaluation)
        else:
            failed += 1
    return np.array(kept, dtype=np.int64), verdicts, failed


def finite(verdicts: Sequence[Evaluation], values: Sequence[float | None]) -> FloatArray:
    """Return values of verdicts as an array; a verdict never holds NaN, so one here is a fault."""
    array = np.array(values, dtype=float)
    if not np.isfinite(array).all():
        ids = [verdict.id for verdict in verdicts][:5]
        raise ValueError(
            f"{int((~np.isfinite(array)).sum())} of {len(array)} numbers in the verdicts on {ids} "
            "are missing or not finite; the engine that made them must not be measured"
        )
    return array


def marked_sentences(verdict: Evaluation, spans: Sequence[ContextSpan]) -> BoolArray:
    """Return, for every context sentence in order, whether a span touches it."""
    marks = [np.zeros(0, dtype=bool)]
    for number, context in enumerate(verdict.contexts):
        sentences = [Span(one.start, one.end) for one in context.sentences]
        here = [Span(span.start, span.end) for span in spans if span.context == number]
        marks.append(_touched(sentences, here))
    return np.concatenate(marks)


def _touched(sentences: Sequence[Span], spans: Sequence[Span]) -> BoolArray:
    offsets = np.array([(one.start, one.end) for one in sentences], dtype=np.int64)
    return mark_tokens(offsets.reshape(-1, 2), spans)
