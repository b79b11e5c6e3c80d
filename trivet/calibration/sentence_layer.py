"""Fit of the layer over response sentences (``model.aggregate.SentenceLayer``).

The likelihood of labelled sentences, with a prior on the layer that changes nothing: the scale is 1
with a standard deviation of 0.5, weights are 0 with one of 1. Support may rise with the lexical
overlap alone; words and values that the contexts lack never raise it, however the rows of a small
source happen to fall.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize

from trivet.calibration.choices import Weighing
from trivet.calibration.fit import HeadLogits, Map, probabilities
from trivet.data.sentence_features import FEATURES
from trivet.data.tokenization import BoolArray
from trivet.measures.curves import FloatArray
from trivet.model.aggregate import NO_LAYER, SentenceLayer, logits_of

_SCALE_SPREAD, _SHIFT_SPREAD, _WEIGHT_SPREAD = 0.5, 5.0, 1.0  # standard deviations of the prior
_LEAST_SCALE = 0.05


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
    means = probabilities(_without_features(head), found).sentences
    of_row = head.weight[head.row]
    if weighing == "example":
        of_row = of_row / torch.bincount(head.row).clamp(min=1)[head.row]
    known = (~head.truth.isnan() & (of_row > 0)).numpy()
    if rows is not None:
        known &= rows[head.row.numpy()]
    truth, weight = head.truth.numpy()[known], of_row.numpy()[known]
    if head.features is None or len(np.unique(truth)) < 2:
        return NO_LAYER
    columns = [logits_of(means.numpy()[known]), np.ones(known.sum())]
    inputs = np.column_stack([*columns, head.features.numpy()[known]])
    weight = weight * (len(weight) / weight.sum())
    values = _maximum(inputs, truth, weight)
    return SentenceLayer(float(values[0]), float(values[1]), tuple(map(float, values[2:])))


def _without_features(head: HeadLogits) -> HeadLogits:
    return HeadLogits(
        head.logits, head.token, head.sentence, head.row, head.truth, head.verdict, head.weight,
        is_evidence=head.is_evidence,
    )  # fmt: skip


def _maximum(inputs: FloatArray, truth: FloatArray, weight: FloatArray) -> FloatArray:
    """Return scale, shift and weights. *Shapes:* [n, 2 + F], [n], [n] -> [2 + F]."""
    start = np.zeros(inputs.shape[1])
    start[0] = 1.0
    spread = np.full(len(start), _WEIGHT_SPREAD)
    spread[:2] = _SCALE_SPREAD, _SHIFT_SPREAD
    sign = np.where(truth == 1, 1.0, -1.0)

    def loss(values: FloatArray) -> tuple[float, FloatArray]:
        margin = sign * (inputs @ values)
        far = (values - start) / spread
        slope = -sign * weight * np.exp(-np.logaddexp(0.0, margin))
        value = weight @ np.logaddexp(0.0, -margin) + far @ far / 2
        return float(value), inputs.T @ slope + far / spread

    rising = len(FEATURES) - 1  # features after the first lower support
    bounds = [(_LEAST_SCALE, None), (None, None), (0.0, None), *[(None, 0.0)] * rising]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    values: FloatArray = found.x
    return values
