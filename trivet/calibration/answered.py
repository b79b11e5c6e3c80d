"""The relevance from which on the contexts answer a question, so that an abstention is wrong."""

from __future__ import annotations

import numpy as np

from trivet.calibration.fit import Map, probabilities
from trivet.calibration.joining import HeadLogits
from trivet.data.tokenization import BoolArray
from trivet.measures.curves import FloatArray


def choose_answered(relevance: HeadLogits, found: Map) -> float | None:
    """Return the relevance of the best context sentence that tells answered questions best.

    A question is answered where a context sentence is labelled relevant. The threshold has the
    largest sum of the shares of answered and unanswered questions that it tells (Youden's index);
    each row counts by its weight. None if the rows hold one kind alone.
    """
    row = relevance.row
    rows = len(relevance.weight)
    truth = relevance.truth
    known, answered = np.zeros((2, rows), dtype=bool)
    known[row[~np.isnan(truth)]] = True
    answered[row[truth == 1]] = True
    best = np.zeros(rows)
    np.maximum.at(best, row, probabilities(relevance, found).sentences)
    weight = relevance.weight[known]
    return best_threshold(best[known], answered[known], weight)


def best_threshold(score: FloatArray, positive: BoolArray, weight: FloatArray) -> float | None:
    """Return the score from which on rows are taken as positive; None with one class."""
    order = np.argsort(-score, kind="stable")
    score, positive, weight = score[order], positive[order], weight[order]
    if positive.all() or not positive.any():
        return None
    hits = np.cumsum(weight * positive) / weight[positive].sum()
    alarms = np.cumsum(weight * ~positive) / weight[~positive].sum()
    ends = np.append(np.diff(score) != 0, True)  # equal scores fall on one side
    gain = np.where(ends, hits - alarms, -np.inf)
    at = int(gain.argmax())
    below = score[at + 1] if at + 1 < len(score) else 0.0
    return float((score[at] + below) / 2)
