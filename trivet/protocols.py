"""What is compared with what: judged rows -> the samples that statistics are made of.

One sample a measure. A row whose truth is known and that has no verdict is counted as failed in
each sample it belongs to; a row whose truth is unknown does not belong to the sample. How samples
become figures with intervals stands in `trivet.metrics`, the statistics in `trivet.intervals`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.data.spans import mark_tokens
from trivet.intervals import (
    BoolArray,
    FloatArray,
    IntArray,
    Statistic,
    auroc,
    best_f1,
    calibration_error,
    ratio,
    root_mean_square,
)
from trivet.records import ContextSpan, Evaluation, FailedEvaluation, LabelledExample, Labels, Span
from trivet.thresholds import best_threshold


@dataclass(frozen=True)
class Judged:
    """An example with its labels, and the verdict on it or the failure in the verdict's place."""

    example: LabelledExample
    evaluation: Evaluation | FailedEvaluation


@dataclass(frozen=True)
class Sample:
    """The rows of one measure and the statistic to take of them.

    Attributes:
        measure: The name of the figure.
        rows: [n] positions, in the list given, of the rows that are compared.
        statistic: Of those rows, in that order.
        positives: How many of them hold the positive class; None without classes.
        failed: How many rows have a truth and no verdict.
        undefined: Why the value is undefined, if it is.
        note: How to read the value.
    """

    measure: str
    rows: IntArray
    statistic: Statistic
    positives: int | None
    failed: int
    undefined: str | None = None
    note: str | None = None


def samples(rows: Sequence[Judged]) -> list[Sample]:
    """Return the sample of every measure for which some truth is known, in a fixed order.

    Raises:
        ValueError: A verdict holds a number that is not finite.
    """
    return [
        sample
        for sample in (
            *_hallucination(rows),
            *_spans(rows),
            *(_score(rows, name) for name in ("relevance", "utilization", "completeness")),
            _support_calibration(rows),
            *(_context_calibration(rows, name) for name in ("relevance", "utilization")),
        )
        if len(sample.rows) or sample.failed
    ]


def _hallucination(rows: Sequence[Judged]) -> list[Sample]:
    """Response level: positive = not adherent, score = 1 - faithfulness."""
    kept, verdicts, failed = _verdicts(
        rows,
        known=lambda labels: labels.adherent is not None,
        judged=lambda verdict: verdict.faithfulness is not None,
    )
    scores = 1 - _finite(verdicts, [verdict.faithfulness for verdict in verdicts])
    positive = np.array([rows[i].example.labels.adherent is False for i in kept], dtype=bool)
    flagged = np.array([verdict.adherent is False for verdict in verdicts], dtype=float)
    hits, gold = flagged * positive, positive.astype(float)
    one_class = _one_class(positive, "hallucinated", "adherent")
    no_gold = None if positive.any() else "no hallucinated row"
    best = best_threshold(1 - scores, gold)

    def sample(
        measure: str, statistic: Statistic, undefined: str | None, note: str | None = None
    ) -> Sample:
        return Sample(measure, kept, statistic, int(positive.sum()), failed, undefined, note)

    unit = np.arange(len(kept))
    return [
        sample("hallucination_auroc", auroc(scores, positive), one_class),
        sample(
            "hallucination_precision",
            ratio(hits, flagged, flagged),
            None if flagged.any() else "nothing was flagged",
        ),
        sample("hallucination_recall", ratio(hits, gold, gold), no_gold),
        sample("hallucination_f1", ratio(2 * hits, flagged + gold, gold), no_gold),
        sample(
            "hallucination_f1_best_threshold",
            best_f1(scores, positive),
            no_gold,
            f"threshold {best.threshold:.4f} was chosen on these very rows" if best else None,
        ),
        sample("hallucination_ece", calibration_error(unit, scores, positive, len(kept)), None),
    ]


def _spans(rows: Sequence[Judged]) -> list[Sample]:
    """Characters of unsupported spans, summed over all rows, as LettuceDetect's evaluator does.

    A row without gold spans counts: what is flagged in it is wrong. Characters are counted once,
    also where spans of one side overlap each other.
    """
    kept, verdicts, failed = _verdicts(
        rows,
        known=lambda labels: labels.unsupported is not None,
        judged=lambda verdict: verdict.faithfulness is not None,
    )
    amounts = np.zeros((3, len(kept)))
    for place, (row, verdict) in enumerate(zip(kept, verdicts, strict=True)):
        example = rows[row].example
        length = len(example.example.response)
        gold = _characters(length, example.labels.unsupported or ())
        flagged = _characters(length, [Span(span.start, span.end) for span in verdict.unsupported])
        amounts[:, place] = (gold & flagged).sum(), flagged.sum(), gold.sum()
    hits, predicted, truth = amounts
    positives = int((truth > 0).sum())
    no_gold = None if positives else "no row with an unsupported span"

    def sample(measure: str, statistic: Statistic, undefined: str | None) -> Sample:
        return Sample(measure, kept, statistic, positives, failed, undefined)

    return [
        sample(
            "span_precision",
            ratio(hits, predicted, predicted),
            None if predicted.any() else "nothing was flagged",
        ),
        sample("span_recall", ratio(hits, truth, truth), no_gold),
        sample("span_f1", ratio(2 * hits, predicted + truth, truth), no_gold),
    ]


def _score(rows: Sequence[Judged], name: str) -> Sample:
    """RMSE of an example score: the annotators' own, else the share of context sentences marked."""
    kept, verdicts, failed = _verdicts(
        rows,
        known=lambda labels: _score_known(labels, name),
        judged=lambda verdict: getattr(verdict, name) is not None,
    )
    predicted = _finite(verdicts, [getattr(verdict, name) for verdict in verdicts])
    true = np.array(
        [
            _true_score(rows[row].example.labels, verdict, name)
            for row, verdict in zip(kept, verdicts, strict=True)
        ],
        dtype=float,
    )
    return Sample(f"{name}_rmse", kept, root_mean_square(predicted - true), None, failed)


def _score_known(labels: Labels, name: str) -> bool:
    if getattr(labels, name) is not None:
        return True
    if name == "completeness":  # of nothing relevant there is no share
        return bool(labels.relevant) and labels.utilized is not None
    return (labels.relevant if name == "relevance" else labels.utilized) is not None


def _true_score(labels: Labels, verdict: Evaluation, name: str) -> float:
    given: float | None = getattr(labels, name)
    if given is not None:
        return given
    relevant = _marked(verdict, labels.relevant or ())
    utilized = _marked(verdict, labels.utilized or ())
    if name == "completeness":
        return float((relevant & utilized).sum() / max(relevant.sum(), 1))
    marked = relevant if name == "relevance" else utilized
    return float(marked.mean()) if len(marked) else 0.0


def _support_calibration(rows: Sequence[Judged]) -> Sample:
    """Calibration of the response sentences: positive = touched by an unsupported span."""
    kept, verdicts, failed = _verdicts(
        rows,
        known=lambda labels: labels.unsupported is not None,
        judged=lambda verdict: verdict.faithfulness is not None,
    )
    probs, positive = [], []
    for row, verdict in zip(kept, verdicts, strict=True):
        probs.append(1 - _finite([verdict], [sentence.support for sentence in verdict.sentences]))
        spans = [Span(sentence.start, sentence.end) for sentence in verdict.sentences]
        positive.append(_touched(spans, rows[row].example.labels.unsupported or ()))
    return _sentences("support_ece", kept, probs, positive, failed)


def _context_calibration(rows: Sequence[Judged], name: str) -> Sample:
    """Calibration of the context sentences: positive = touched by a relevant or utilized span."""
    label = {"relevance": "relevant", "utilization": "utilized"}[name]
    kept, verdicts, failed = _verdicts(
        rows,
        known=lambda labels: getattr(labels, label) is not None,
        judged=lambda verdict: getattr(verdict, name) is not None,
    )
    probs, positive = [], []
    for row, verdict in zip(kept, verdicts, strict=True):
        sentences = [one for context in verdict.contexts for one in context.sentences]
        probs.append(_finite([verdict], [getattr(one, name) for one in sentences]))
        positive.append(_marked(verdict, getattr(rows[row].example.labels, label)))
    return _sentences(f"{name}_ece", kept, probs, positive, failed)


def _sentences(
    measure: str,
    kept: IntArray,
    probs: list[FloatArray],
    positive: list[BoolArray],
    failed: int,
) -> Sample:
    row = np.repeat(np.arange(len(kept)), [len(values) for values in probs])
    statistic = calibration_error(
        row,
        np.concatenate([np.zeros(0), *probs]),
        np.concatenate([np.zeros(0, dtype=bool), *positive]),
        len(kept),
    )
    positives = sum(bool(marks.any()) for marks in positive)
    undefined = None if len(row) else "no sentence was judged"
    return Sample(measure, kept, statistic, positives, failed, undefined)


def _verdicts(
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


def _finite(verdicts: Sequence[Evaluation], values: Sequence[float | None]) -> FloatArray:
    """Return values of verdicts as an array; a verdict never holds NaN, so one here is a fault."""
    array = np.array(values, dtype=float)
    if not np.isfinite(array).all():
        ids = [verdict.id for verdict in verdicts][:5]
        raise ValueError(
            f"{int((~np.isfinite(array)).sum())} of {len(array)} numbers in the verdicts on {ids} "
            "are missing or not finite; the engine that made them must not be measured"
        )
    return array


def _marked(verdict: Evaluation, spans: Sequence[ContextSpan]) -> BoolArray:
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


def _characters(length: int, spans: Sequence[Span]) -> BoolArray:
    marks = np.zeros(length, dtype=bool)
    for span in spans:
        marks[span.start : span.end] = True
    return marks


def _one_class(positive: BoolArray, yes: str, no: str) -> str | None:
    if positive.all():
        return f"no {no} row"
    return None if positive.any() else f"no {yes} row"
