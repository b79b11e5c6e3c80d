"""Many verdicts as columns: values, their mean, and what the mean leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trivet.integrations.judge import SCORES, Result
from trivet.records import FailedEvaluation


def score_columns(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Return a column for each score.

    Returns:
        Of each score its mean ``score``, the ``individual_scores``, ``n`` that have one, how many
        could not be judged (``n_failed``), and their ``errors``. A value is ``None`` where there is
        none, and so is the mean where no row has one.
    """
    errors = [
        f"{r.code}: {r.message}" if isinstance(r, FailedEvaluation) else None for r in results
    ]
    n_failed = len(errors) - errors.count(None)
    columns: dict[str, dict[str, Any]] = {}
    for score, field in SCORES.items():
        values = [getattr(result, field, None) for result in results]
        known = [value for value in values if value is not None]
        columns[score] = {
            "score": sum(known) / len(known) if known else None,
            "individual_scores": values,
            "n": len(known),
            "n_failed": n_failed,
            "errors": errors,
        }
    return columns
