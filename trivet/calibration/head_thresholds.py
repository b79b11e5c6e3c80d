"""The map and threshold of the evidence head, and the relevance that answers a question."""

from __future__ import annotations

import logging

import numpy as np

from trivet.bundle.schema import EvidenceInfo
from trivet.calibration.fit import LinearMap, fit, probabilities
from trivet.calibration.joining import HeadLogits, sigmoid
from trivet.data.tokenization import BoolArray
from trivet.errors import DataError
from trivet.measures.curves import FloatArray
from trivet.measures.thresholds import DEFAULT_THRESHOLD, best_threshold

logger = logging.getLogger(__name__)


def choose_sources(pairs: HeadLogits, old: EvidenceInfo | None = None) -> EvidenceInfo:
    """Fit the map, and choose the threshold of best F1, to pairs as ``read_heads`` returns them.

    Without labels of both kinds the old map is kept, or the identity.
    """
    try:
        found = fit(pairs, what="evidence", lexical_overlap=True)
    except DataError as error:
        logger.warning("%s; the sources are not calibrated", error)
        return old or EvidenceInfo(scale=1.0, shift=0.0, threshold=DEFAULT_THRESHOLD)
    overlap = pairs.lexical_overlap
    assert overlap is not None
    z = found.scale * pairs.logits + found.shift + found.lexical_overlap * overlap
    known = ~np.isnan(pairs.truth)
    probs, truth = sigmoid(z[known]), pairs.truth[known]
    best = best_threshold(1 - probs, truth)
    chosen = EvidenceInfo(
        scale=found.scale,
        shift=found.shift,
        lexical_overlap=found.lexical_overlap,
        threshold=1 - best.threshold if best else DEFAULT_THRESHOLD,
    )
    logger.info("evidence: %s", chosen)
    return chosen


def choose_answered(relevance: HeadLogits, found: LinearMap) -> float | None:
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
    return split_threshold(best[known], answered[known], weight)


def split_threshold(score: FloatArray, positive: BoolArray, weight: FloatArray) -> float | None:
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
