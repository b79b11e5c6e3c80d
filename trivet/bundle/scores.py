"""Measured figures in a bundle and its model card: written, and read as rates of errors."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from trivet.bundle.bundle import Bundle, add_files
from trivet.bundle.info import AlarmsInfo, ScoreInfo
from trivet.measures.figures import ErrorRates, Figure
from trivet.settings import Precision

# Measures in the card, over all generators.
IN_CARD = frozenset(
    {
        "hallucination_auroc",
        "word_counting_auroc",
        "hallucination_f1",
        "hallucination_precision",
        "hallucination_recall",
        "hallucination_fpr_at_recall_90",
        "hallucination_fpr_at_recall_95",
        "span_f1",
        "relevance_rmse",
        "utilization_rmse",
        "completeness_rmse",
    }
)


def keep_scores(
    bundle: Bundle,
    figures: Iterable[Figure],
    *,
    split: str,
    command: str,
    precision: Precision,
) -> None:
    """Write figures to ``bundle.json`` and the card, replacing older ones of the same rows.

    Raises:
        BundleError: The bundle's files have changed since it was read.
    """
    info = bundle.info
    new = [
        ScoreInfo(
            measure=figure.measure,
            data=figure.source,
            split=split,
            value=figure.value,
            low=figure.low,
            high=figure.high,
            n=figure.n,
            positives=figure.positives,
            failed=figure.failed,
            date=date.today().isoformat(),
            command=command,
            precision=precision,
        )
        for figure in figures
        if figure.measure in IN_CARD and not (figure.generator or figure.length or figure.rows)
    ]
    replaced = {(score.data, score.split, score.precision) for score in new}
    kept = [
        score for score in info.scores if (score.data, score.split, score.precision) not in replaced
    ]
    add_files(bundle.folder, {}, info.model_copy(update={"scores": (*kept, *new)}))


def error_rates(alarms: Iterable[AlarmsInfo]) -> list[ErrorRates]:
    """Return the rates of errors at the default threshold."""
    return [
        ErrorRates(
            alarm.data,
            "dev",
            alarm.faithful,
            alarm.false_alarms[1],
            alarm.hallucinated,
            alarm.found[1],
        )
        for alarm in alarms
    ]
