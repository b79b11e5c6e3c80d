"""Fit of the layer over response sentences (``model.aggregate.SentenceLayer``).

The likelihood of labelled sentences, with a prior on the layer that changes nothing: the scale is 1
with a standard deviation of 0.5, weights are 0 with one of 1. Support may rise with the lexical
overlap alone; words and values that the contexts lack never raise it, however the rows of a small
source happen to fall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trivet.calibration.fit import Map, Weighing, probabilities
from trivet.calibration.joining import HeadLogits, sigmoid
from trivet.data.sentence_features import FEATURES
from trivet.measures.curves import FloatArray
from trivet.measures.intervals import BoolArray
from trivet.model.aggregate import NO_LAYER, SentenceLayer, logits_of

_SCALE_SPREAD, _SHIFT_SPREAD, _WEIGHT_SPREAD = 0.5, 5.0, 1.0  # standard deviations of the prior
_LEAST_SCALE = 0.05
_MOST_STEPS, _MOST_HALVINGS = 200, 40
_LEAST_MOVE = 1e-10


def fit_sentence_layer(
    head: HeadLogits, found: Map, weighing: Weighing = "example", rows: BoolArray | None = None
) -> SentenceLayer:
    """Return the layer of maximum posterior over the sentences with labels.

    Args:
        head: Logits, labels and features of the support head.
        found: Map of its logits; a layer in it is ignored.
        weighing: Unit of equal weight.
        rows: Examples to fit on; None for all. *Shape:* [B].

    Returns:
        The layer; the one that changes nothing without sentences of both kinds.
    """
    bare = replace(head, features=None, has_claim=None, lexical_overlap=None)
    means = probabilities(bare, found).sentences
    of_row = head.weight[head.row]
    if weighing == "example":
        of_row = of_row / np.bincount(head.row).clip(min=1)[head.row]
    known = ~np.isnan(head.truth) & (of_row > 0)
    if rows is not None:
        known &= rows[head.row]
    truth, weight = head.truth[known], of_row[known]
    if head.features is None or len(np.unique(truth)) < 2:
        return NO_LAYER
    columns = [logits_of(means[known]), np.ones(known.sum())]
    inputs = np.column_stack([*columns, head.features[known]])
    weight = weight * (len(weight) / weight.sum())
    values = _maximum(inputs, truth, weight)
    return SentenceLayer(float(values[0]), float(values[1]), tuple(map(float, values[2:])))


def _maximum(inputs: FloatArray, truth: FloatArray, weight: FloatArray) -> FloatArray:
    """Return scale, shift and weights. *Shapes:* [n, 2 + F], [n], [n] -> [2 + F]."""
    start = np.zeros(inputs.shape[1])
    start[0] = 1.0
    spread = np.full(len(start), _WEIGHT_SPREAD)
    spread[:2] = _SCALE_SPREAD, _SHIFT_SPREAD
    sign = np.where(truth == 1, 1.0, -1.0)

    rising = len(FEATURES) - 1  # features after the first lower support
    low = np.array([_LEAST_SCALE, -np.inf, 0.0, *[-np.inf] * rising])
    high = np.array([np.inf, np.inf, np.inf, *[0.0] * rising])

    def loss(values: FloatArray) -> float:
        far = (values - start) / spread
        return float(weight @ np.logaddexp(0.0, -sign * (inputs @ values)) + far @ far / 2)

    # Newton's method on the values that are free to move; the loss is convex.
    values, value = start, loss(start)
    for _ in range(_MOST_STEPS):
        wrong = sigmoid(-sign * (inputs @ values))
        slope = inputs.T @ (-sign * weight * wrong) + (values - start) / spread**2
        bent = (inputs * (weight * wrong * (1 - wrong))[:, None]).T @ inputs
        bent += np.diag(spread**-2.0)
        free = ~((values <= low) & (slope > 0) | (values >= high) & (slope < 0))
        newton = np.zeros(len(values))
        newton[free] = -np.linalg.solve(bent[np.ix_(free, free)], slope[free])
        # Where a bound bends Newton's step upwards, the gradient leads down.
        for step in (newton, np.where(free, -slope / np.trace(bent), 0.0)):
            moved, reached = _descend(loss, values, value, step, slope, low, high)
            if reached < value:
                break
        far = np.abs(moved - values).max()
        values, value = moved, reached
        if far < _LEAST_MOVE:
            break
    return values


def _descend(
    loss: Callable[[FloatArray], float],
    values: FloatArray,
    value: float,
    step: FloatArray,
    slope: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> tuple[FloatArray, float]:
    """Return the values after a part of a step within bounds, and the loss there."""
    for halving in range(_MOST_HALVINGS):
        moved = np.clip(values + step / 2**halving, low, high)
        reached = loss(moved)
        if reached <= value + 1e-4 * float(slope @ (moved - values)):
            return moved, reached
    return values, value
