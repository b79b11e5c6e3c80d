"""Write measured figures to a bundle's model card (``trivet test --into-card``)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from trivet.bundle.bundle import Bundle, add_files
from trivet.bundle.schema import GraphPrecision, ScoreInfo
from trivet.measures.figures import Figure

# Measures in the card, over all generators.
IN_CARD = frozenset(
    {
        "hallucination_auroc",
        "hallucination_f1",
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
    precision: GraphPrecision,
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
        if figure.measure in IN_CARD
        and not (figure.generator or figure.length or figure.rows or figure.judge)
    ]
    replaced = {(score.data, score.split, score.precision) for score in new}
    kept = [
        score for score in info.scores if (score.data, score.split, score.precision) not in replaced
    ]
    add_files(bundle.folder, {}, info.model_copy(update={"scores": (*kept, *new)}))
