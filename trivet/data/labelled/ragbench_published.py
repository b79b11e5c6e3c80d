"""Scores of GPT-3.5, RAGAS and TruLens, which RAGBench's files hold for their rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trivet.data.labelled.source_report import SourceReport
from trivet.records import PublishedScores

# Columns of faithfulness, relevance and utilization.
JUDGES: dict[str, tuple[str, str, str | None]] = {
    "GPT-3.5": ("gpt3_adherence", "gpt3_context_relevance", "gpt35_utilization"),
    "RAGAS": ("ragas_faithfulness", "ragas_context_relevance", None),
    "TruLens": ("trulens_groundedness", "trulens_context_relevance", None),
}
COLUMNS = tuple(column for columns in JUDGES.values() for column in columns if column)


def read_published_scores(
    values: Mapping[str, Any], place: str, report: SourceReport
) -> tuple[PublishedScores, ...]:
    """Return the scores of each judge that has one for a row; a score outside [0, 1] is unknown."""

    def score(column: str | None) -> float | None:
        value = None if column is None else values.get(column)
        if value is None or math.isnan(value):
            return None
        if not 0 <= value <= 1:
            report.note(f"{column} lies outside [0, 1]", place)
            return None
        return float(value)

    found = (PublishedScores(judge, *map(score, columns)) for judge, columns in JUDGES.items())
    return tuple(
        one for one in found if (one.faithfulness, one.relevance, one.utilization) != (None,) * 3
    )
