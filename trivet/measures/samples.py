"""Samples: the rows of each measure and the statistic computed on them.

A row with a known truth and no verdict counts as failed in each sample it belongs to; a row with
unknown truth does not belong to the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from trivet.heads import CONTEXT_HEADS, HEADS, HeadName
from trivet.measures.best_threshold import best_threshold
from trivet.measures.curves import FloatArray, IntArray
from trivet.measures.intervals import (
    Statistic,
    auroc,
    best_f1,
    calibration_error,
    false_alarms_at_recall,
    ratio,
    root_mean_square,
)
from trivet.measures.predictions import (
    Prediction,
    Units,
    counted_probs,
    finite,
    marked_characters,
    marked_sentences,
    response_units,
    scored_units,
    verdicts_of,
)
from trivet.records import ContextSpan, Evaluation, Labels


@dataclass(frozen=True)
class Sample:
    """The rows of one measure and its statistic."""

    measure: str
    rows: IntArray  # positions in the given list [n]
    statistic: Statistic  # of these rows, in this order
    positives: int | None  # rows of the positive class; None without classes
    failed: int  # rows with a truth and no verdict
    undefined: str | None = None  # reason for an undefined value
    note: str | None = None  # reading hint


def samples(rows: Sequence[Prediction]) -> list[Sample]:
    """Return the samples of all measures with a known truth, in a fixed order."""
    units = scored_units(rows)
    return [
        sample
        for sample in (
            *_hallucination(rows, units.pop("hallucination")),
            *_spans(rows),
            *(_score(rows, name) for name in (*CONTEXT_HEADS, "completeness")),
            *(_calibration(name, sentences) for name, sentences in units.items()),
        )
        if len(sample.rows) or sample.failed
    ]


def samples_at_common_threshold(
    rows: Sequence[Prediction], tuned_on: Sequence[Prediction]
) -> list[Sample]:
    """Return precision, recall and F1 of rows at the threshold on faithfulness of other rows.

    It has the best F1 on ``tuned_on``; if these are of one class, nothing is returned.
    """
    units, tuned = response_units(rows), response_units(tuned_on)
    best = best_threshold(1 - tuned.probs, tuned.positive.astype(float))
    if best is None:
        return []
    flagged, gold = (1 - units.probs < best.threshold).astype(float), units.positive.astype(float)
    note = f"threshold {best.threshold:.4f} has the best F1 on the measured rows of all sets"
    hits = flagged * gold
    return _precision_recall_f1(
        "hallucination", units.rows, flagged, gold, hits, units.failed, "_common_threshold", note
    )


def _precision_recall_f1(
    level: str,
    rows: IntArray,
    flagged: FloatArray,
    gold: FloatArray,
    hits: FloatArray,
    failed: int,
    suffix: str = "",
    note: str | None = None,
) -> list[Sample]:
    """Return precision, recall and F1 of amounts that are flagged, and that should be [n]."""
    positives = int((gold > 0).sum())
    what = "hallucinated row" if level == "hallucination" else "row with an unsupported span"
    no_gold = None if positives else f"no {what}"
    nothing = None if flagged.any() else "nothing was flagged"
    return [
        Sample(f"{level}_{name}{suffix}", rows, statistic, positives, failed, undefined, note)
        for name, statistic, undefined in (
            ("precision", ratio(hits, flagged, flagged), nothing),
            ("recall", ratio(hits, gold, gold), no_gold),
            ("f1", ratio(2 * hits, flagged + gold, gold), no_gold),
        )
    ]


def _hallucination(rows: Sequence[Prediction], units: Units) -> list[Sample]:
    """Return the response-level samples: positive = not adherent, score = 1 - faithfulness."""
    kept, scores, positive = units.rows, units.probs, units.positive
    flagged = np.array(
        [getattr(rows[i].evaluation, "adherent", None) is False for i in kept], dtype=float
    )
    gold = positive.astype(float)
    no_gold = None if positive.any() else "no hallucinated row"
    one_class = "no adherent row" if positive.all() else no_gold
    best = best_threshold(1 - scores, gold)
    chosen = f"threshold {best.threshold:.4f} was chosen on these very rows" if best else None

    def sample(
        measure: str, statistic: Statistic, undefined: str | None, note: str | None = None
    ) -> Sample:
        return Sample(measure, kept, statistic, int(positive.sum()), units.failed, undefined, note)

    at_recall = [
        sample(
            f"hallucination_fpr_at_recall_{percent}",
            false_alarms_at_recall(scores, positive, percent / 100),
            one_class,
            f"of the adherent rows; the threshold finds {percent} % on these very rows",
        )
        for percent in (90, 95)
    ]
    right = (flagged == gold).astype(float)
    every = np.ones(len(kept))
    return [
        sample("hallucination_auroc", auroc(scores, positive), one_class),
        sample("word_counting_auroc", auroc(counted_probs(rows, kept), positive), one_class),
        *at_recall,
        sample("hallucination_accuracy", ratio(right, every, every), None),
        *_precision_recall_f1("hallucination", kept, flagged, gold, flagged * gold, units.failed),
        sample("hallucination_f1_best_threshold", best_f1(scores, positive), no_gold, chosen),
        _calibration("hallucination", units),
    ]


def _spans(rows: Sequence[Prediction]) -> list[Sample]:
    """Return the samples of unsupported characters, summed over rows as LettuceDetect does.

    Rows without gold spans count. Characters of overlapping spans are counted once.
    """
    kept, verdicts, failed = verdicts_of(
        rows, lambda labels: labels.unsupported is not None, "adherent"
    )
    amounts = np.zeros((3, len(kept)))
    for index, (row, verdict) in enumerate(zip(kept, verdicts, strict=True)):
        example = rows[row].example
        length = len(example.example.response)
        gold = marked_characters(length, example.labels.unsupported or ())
        flagged = marked_characters(length, verdict.unsupported)
        amounts[:, index] = (gold & flagged).sum(), flagged.sum(), gold.sum()
    hits, predicted, truth = amounts
    return _precision_recall_f1("span", kept, predicted, truth, hits, failed)


def _score(rows: Sequence[Prediction], name: str) -> Sample:
    """Return the sample of an example score's RMSE."""
    kept, verdicts, failed = verdicts_of(rows, lambda labels: _score_known(labels, name), name)
    predicted = finite(verdicts, [getattr(verdict, name) for verdict in verdicts])
    true = [
        true_score(rows[row].example.labels, verdict, name)
        for row, verdict in zip(kept, verdicts, strict=True)
    ]
    errors = predicted - np.array(true, dtype=float)
    return Sample(f"{name}_rmse", kept, root_mean_square(errors), None, failed)


def _score_known(labels: Labels, name: str) -> bool:
    if getattr(labels, name) is not None:
        return True
    if name == "completeness":  # undefined if nothing is relevant
        return bool(labels.relevant) and labels.utilized is not None
    return _marks(labels, name) is not None


def _marks(labels: Labels, head: str) -> tuple[ContextSpan, ...] | None:
    """Return the spans of the contexts that teach a head."""
    spans: tuple[ContextSpan, ...] | None = getattr(labels, HEADS[cast(HeadName, head)].labels[0])
    return spans


def true_score(labels: Labels, verdict: Evaluation, name: str) -> float | None:
    """Return the true relevance, utilization or completeness of an example; None if unknown.

    It is the annotators' own score, or else the share of context sentences that they marked.
    """
    own_score: float | None = getattr(labels, name)
    if own_score is not None or not _score_known(labels, name):
        return own_score
    if name == "completeness":
        relevant = marked_sentences(verdict, labels.relevant or ())
        utilized = marked_sentences(verdict, labels.utilized or ())
        return float((relevant & utilized).sum() / max(relevant.sum(), 1))
    marked = marked_sentences(verdict, _marks(labels, name) or ())
    return float(marked.mean()) if len(marked) else 0.0


def _calibration(name: str, units: Units) -> Sample:
    statistic = calibration_error(units.row, units.probs, units.positive, len(units.rows))
    positives = len(np.unique(units.row[units.positive]))
    undefined = None if len(units.row) else "no sentence was scored"
    return Sample(f"{name}_ece", units.rows, statistic, positives, units.failed, undefined)
