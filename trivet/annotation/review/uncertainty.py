"""Doubt of a judge on each row: what it is least sure of teaches most (uncertainty sampling)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation, FailedEvaluation, LabelledExample


def measure_uncertainty(evaluator: Evaluator, rows: Sequence[LabelledExample]) -> Iterator[float]:
    """Yield the doubt of a judge on each row, in [0, 1]; 1 for a row that it cannot evaluate.

    Of a response, it is how near what decides on it is to the threshold: its faithfulness, or the
    support of its weakest sentence where that is higher. Of a row without a response, it is the
    mean doubt on the relevance of the context sentences.
    """
    info = evaluator.bundle.info.thresholds
    threshold = 0.5 if info is None else info.sentence
    for result in evaluator.evaluate_many(row.example for row in rows):
        yield _doubt(result, threshold)


def _doubt(result: Evaluation | FailedEvaluation, threshold: float) -> float:
    if isinstance(result, FailedEvaluation):
        return 1.0
    if result.faithfulness is not None:
        supports = [one.support for one in result.sentences if one.support is not None]
        whole = max(result.faithfulness, min(supports, default=1.0))
        room = 1 - threshold if whole > threshold else threshold
        return 1 - abs(whole - threshold) / max(room, 1e-9)
    sentences = [one for context in result.contexts for one in context.sentences]
    known = [one.relevance for one in sentences if one.relevance is not None]
    return float(np.mean(1 - np.abs(2 * np.array(known) - 1))) if known else 1.0
