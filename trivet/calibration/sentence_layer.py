"""Fit of the layer over response sentences (``model.aggregate.SentenceLayer``).

The likelihood of labelled sentences, with a prior on the layer that changes nothing: the scale is 1
with a standard deviation of 0.5, weights are 0 with one of 1. Support may rise with the lexical
overlap alone; words and values that the contexts lack never raise it, however the rows of a small
source happen to fall.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trivet.calibration.choices import Weighing
from trivet.calibration.fit import LinearMap, minimize, probabilities
from trivet.calibration.joining import HeadLogits
from trivet.data.sentence_features import FEATURES
from trivet.errors import DataError
from trivet.measures.curves import BoolArray, FloatArray
from trivet.model.aggregate import NO_LAYER, SentenceLayer, logits_of

if TYPE_CHECKING:
    from torch import Tensor

_SCALE_SPREAD, _SHIFT_SPREAD, _WEIGHT_SPREAD = 0.5, 5.0, 1.0  # standard deviations of the prior
_LEAST_SCALE = 0.05


def fit_sentence_layer(
    head: HeadLogits,
    found: LinearMap,
    weighing: Weighing = "example",
    rows: BoolArray | None = None,
) -> SentenceLayer:
    """Return the layer of maximum posterior over the sentences with labels.

    ``found`` is the map of the support logits, of which a layer is ignored; ``rows`` [B] are those
    to fit on, None for all. Without sentences of both kinds the layer changes nothing.
    """
    bare = replace(head, features=None, has_claim=None, lexical_overlap=None)
    means = probabilities(bare, found).sentences
    known, weight = _known(head, weighing, rows)
    truth = head.truth[known]
    if head.features is None or len(np.unique(truth)) < 2:
        return NO_LAYER
    columns = [logits_of(means[known]), np.ones(len(truth))]
    inputs = np.column_stack([*columns, head.features[known]])
    values = _maximum(inputs, truth, weight)
    return SentenceLayer(float(values[0]), float(values[1]), tuple(map(float, values[2:])))


def rescale_layer(
    head: HeadLogits,
    found: LinearMap,
    weighing: Weighing = "example",
    rows: BoolArray | None = None,
) -> SentenceLayer:
    """Return the layer of ``found`` with its logit, the weighted sum, scaled and shifted anew.

    So its weights keep their proportions; they may come from sources whose share of unsupported
    sentences is not that of answers. Arguments as of ``fit_sentence_layer``.

    Raises:
        DataError: The rows do not have sentences of both kinds.
    """
    known, weight = _known(head, weighing, rows)
    truth, layer = head.truth[known], found.layer
    if len(np.unique(truth)) < 2:
        raise DataError(
            "support: needs labels of sentences of both kinds, 1 and 0, to fit its layer"
        )
    support = probabilities(head, found).sentences[known]
    inputs = np.column_stack([logits_of(support), np.ones(len(truth))])
    scale, shift = map(float, _maximum(inputs, truth, weight))
    weights = tuple(scale * each for each in layer.weights)
    return SentenceLayer(scale * layer.scale, scale * layer.shift + shift, weights)


def _known(
    head: HeadLogits, weighing: Weighing, rows: BoolArray | None
) -> tuple[BoolArray, FloatArray]:
    """Return which sentences have a label and a weight [S], and the weights of these."""
    of_row = head.weight[head.row]
    if weighing == "example":
        of_row = of_row / np.bincount(head.row).clip(min=1)[head.row]
    known = ~np.isnan(head.truth) & (of_row > 0)
    if rows is not None:
        known &= rows[head.row]
    weight = of_row[known]
    return known, weight * (len(weight) / max(weight.sum(), 1e-9))


def _maximum(inputs: FloatArray, truth: FloatArray, weight: FloatArray) -> FloatArray:
    """Return scale, shift and weights, if any. *Shapes:* [n, 2 + F], [n], [n] -> [2 + F]."""
    import torch

    start = np.append(1.0, np.zeros(inputs.shape[1] - 1))
    spread = np.full(len(start), _WEIGHT_SPREAD)
    spread[:2] = _SCALE_SPREAD, _SHIFT_SPREAD
    signed = inputs * np.where(truth == 1, 1.0, -1.0)[:, None]
    mean, deviation, rows, weights = map(torch.from_numpy, (start, spread, signed, weight))

    def loss(values: Tensor) -> Tensor:
        likelihood = weights @ torch.nn.functional.logsigmoid(rows @ values)
        return ((values - mean) / deviation).square().sum() / 2 - likelihood

    # Features after the first lower support.
    bounds = [(_LEAST_SCALE, None), (None, None), (0, None), *[(None, 0)] * (len(FEATURES) - 1)]
    return minimize(loss, start, bounds[: len(start)])
