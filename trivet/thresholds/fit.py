"""Fits of maps from a head's logits to probabilities, by the likelihood of labelled sentences.

A sentence's probability is the mean over its tokens, and labels are of sentences. So the map of the
tokens is fitted to the likelihood of the sentences. Support without labels of sentences is fitted
on whole responses, whose probability is that of their weakest part or parts.

The map of a logit z is Platt's: scale * z + shift. The support head's three logits are all
scaled, the shift is entailment's, and z is entailment against the other two. The map of a context
head may also weigh lexical overlap (``data.lexical_overlap``), and that of relevance the similarity
of question and sentence: scale * z + shift + weight * overlap + weight * similarity. Support has a
layer over its sentences as well (``model.aggregate``), fitted by the likelihood of labelled
sentences, with a prior on the layer that changes nothing: support may rise with the lexical overlap
alone; words and values that the contexts lack never raise it, however the rows of a small source
happen to fall. And a sentence whose tokens have a mean support of .02 stays at or below .3, however
many words it shares.

Few labels are easily separated, and then their likelihood grows with the scale without end. So
labels are smoothed as by Platt (1999, "Probabilistic outputs for support vector machines", section
2.2): of n positive ones each is (n + 1) / (n + 2), of n negative ones 1 / (n + 2). And the prior of
a linear map is the map that changes nothing: the scale is 1 with a standard deviation of 0.5, the
change of the mean logit and the weight of overlap are 0 with one of 2. Among hundreds of examples
neither matters.

Letters are those of ``joining``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from trivet.bundle.info import EvidenceInfo
from trivet.data.sentence_features import FEATURES
from trivet.errors import DataError
from trivet.measures.best_threshold import DEFAULT_THRESHOLD, best_threshold
from trivet.measures.curves import BoolArray, FloatArray
from trivet.model.aggregate import logits_of
from trivet.model.architecture import NO_LAYER, Reduction, SentenceLayer
from trivet.thresholds.choices import WEIGHED, Weighed, Weighing
from trivet.thresholds.joining import HeadLogits, Probabilities, join_logits, sigmoid

if TYPE_CHECKING:  # loaded late: thresholds alone need no torch
    from torch import Tensor

logger = logging.getLogger(__name__)

_Loss = Callable[["Tensor"], "Tensor"]  # logits of the positive class [M] or [T] -> loss

_SMALLEST = 1e-9  # least probability under a logarithm
_SCALE_SPREAD, _OTHER_SPREAD = 0.5, 2.0  # standard deviations of the prior
_LEAST_SPREAD = 0.02  # least spread of calibrated logits
# Those of the layer's scale, shift and weights, and its least scale.
_LAYER_SPREADS, _LEAST_SCALE = (0.5, 5.0, 1.0), 0.05
_UNSUPPORTED, _LOW_LIMIT = 0.02, 0.3  # support of a sentence before and at most after the layer


@dataclass(frozen=True)
class LinearMap:
    """scale * z + shift, and weights times what is known of the token's sentence; scale > 0."""

    scale: float = 1.0
    shift: float = 0.0
    lexical_overlap: float = 0.0
    similarity: float = 0.0
    layer: SentenceLayer = NO_LAYER


def probabilities(
    head: HeadLogits, linear_map: LinearMap, faithfulness: Reduction = "weakest_sentence"
) -> Probabilities:
    """Return the probabilities of a head's logits under a map, joined as in the model."""
    import torch

    margins = _margins(head, linear_map.scale) + linear_map.shift
    for name, values in _weighed(head, WEIGHED).items():
        margins = margins + getattr(linear_map, name) * torch.from_numpy(values)
    joined = join_logits(head, margins, faithfulness, linear_map.layer)
    return Probabilities(*(tensor.numpy() for tensor in joined))


def fit(
    head: HeadLogits,
    *,
    what: str,
    rows: BoolArray | None = None,
    faithfulness: Reduction = "weakest_sentence",
    weighing: Weighing = "example",
    weighed: Collection[Weighed] = (),
) -> LinearMap:
    """Return the map of maximum likelihood over some examples, by default all.

    Labels of sentences are fitted, or without them those of responses. ``what`` is the name of the
    head in messages; ``weighed`` is what gets a weight, where the head knows it.

    Raises:
        DataError: Labels of a class are missing, or labels and logits are not positively related.
    """
    import torch

    known = ~np.isnan(head.verdict)
    known[head.row[~np.isnan(head.truth)]] = True
    known &= head.weight > 0
    head = head.select(known if rows is None else known & rows)
    labelled = _labels(head, weighing)
    if labelled is None:
        raise DataError(f"{what}: needs labels of both kinds, 1 and 0, to calibrate on")
    of_sentences, truth, weight = labelled
    target, share = torch.from_numpy(_smoothed(truth, weight)), weight / weight.sum()

    def loss(margins: Tensor) -> Tensor:
        _, sentences, whole = join_logits(head, margins, faithfulness)
        probs = (sentences if of_sentences else whole).clip(_SMALLEST, 1 - _SMALLEST)
        likelihood = target * probs.log() + (1 - target) * torch.log1p(-probs)
        return -(torch.from_numpy(share) @ likelihood)

    return _fit_linear(head, loss, what, _weighed(head, weighed), float(weight.sum()))


def _weighed(head: HeadLogits, names: Collection[Weighed]) -> dict[Weighed, FloatArray]:
    values = {name: getattr(head, name) for name in names}
    return {name: column for name, column in values.items() if column is not None}


def minimize(
    objective: Callable[[Tensor], Tensor],
    start: FloatArray,
    bounds: Sequence[tuple[float | None, float | None]] = (),
) -> FloatArray:
    """Return a minimum of a function that torch can differentiate, by L-BFGS-B."""
    import torch
    from scipy import optimize  # of the extra ``train``, as torch is, which gives the logits

    def with_slopes(values: FloatArray) -> tuple[float, FloatArray]:
        point = torch.tensor(values, requires_grad=True)
        loss = objective(point)
        (slopes,) = torch.autograd.grad(loss, point)
        return float(loss.detach()), slopes.numpy()

    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000}
    minimum: FloatArray = optimize.minimize(
        with_slopes, start, jac=True, method="L-BFGS-B", bounds=bounds or None, options=options
    ).x
    return minimum


def _labels(head: HeadLogits, weighing: Weighing) -> tuple[bool, BoolArray, FloatArray] | None:
    """Return whether labels are of sentences, their truth and weight; None without both classes."""
    of_sentence = head.weight[head.row]
    if weighing == "example":
        of_sentence = of_sentence / np.bincount(head.row).clip(min=1)[head.row]
    kinds = ((True, head.truth, of_sentence), (False, head.verdict, head.weight))
    for of_sentences, truth, weight in kinds:
        known = ~np.isnan(truth) & (weight > 0)
        if len(np.unique(truth[known])) == 2:
            return of_sentences, truth == 1, weight * known
    return None


def _smoothed(truth: BoolArray, weight: FloatArray) -> FloatArray:
    """Return Platt's targets for marks; weights count the examples of each class."""
    positives, negatives = (weight * truth).sum(), (weight * ~truth).sum()
    targets: FloatArray = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    return targets


def _fit_linear(
    head: HeadLogits, loss: _Loss, what: str, weighed: Mapping[Weighed, FloatArray], count: float
) -> LinearMap:
    import torch

    # In units of the logits' spread, and by the change of their mean, which are nearly independent.
    margins = _margins(head).numpy()
    middle = float(margins.mean())
    spread = max(float(margins.std(ddof=1)) if len(margins) > 1 else 0.0, 1e-6)

    def read(values: Tensor) -> tuple[Tensor, Tensor]:
        scale = values[0].exp() / spread
        return scale, middle * (1 - scale) + values[1]

    def objective(values: Tensor) -> Tensor:
        scale, shift = read(values)
        margins = _margins(head, scale) + shift
        for weight, known in zip(values[2:], weighed.values(), strict=True):
            margins = margins + weight * torch.from_numpy(known)
        far = ((scale - 1) / _SCALE_SPREAD) ** 2 + (values[1:] / _OTHER_SPREAD).square().sum()
        return loss(margins) + far / (2 * count)

    start = np.zeros(2 + len(weighed))
    start[0] = np.log(spread)  # the map that changes nothing
    minimum = minimize(objective, start)
    if (fitted := float(np.exp(minimum[0]))) < _LEAST_SPREAD:
        raise DataError(
            f"{what}: labels and logits are unrelated or inversely related (fitted, the logits' "
            f"spread is {fitted:.3f}); not fitted"
        )
    scale, shift = map(float, read(torch.from_numpy(minimum)))
    return LinearMap(scale, shift, **dict(zip(weighed, minimum[2:].tolist(), strict=True)))


def _margins(head: HeadLogits, scale: Tensor | float = 1.0) -> Tensor:
    """Return the logit of the positive class of scaled logits, the first of two or three. [M]."""
    import torch

    logits = torch.from_numpy(head.logits)
    if logits.ndim == 1:
        return logits * scale
    if logits.shape[1] == 2:
        return (logits[:, 0] - logits[:, 1]) * scale
    entailment, neutral, contradiction = logits.unbind(1)
    return scale * (entailment - neutral) - _softplus(scale * (contradiction - neutral))


def _softplus(values: Tensor) -> Tensor:
    """Return log(1 + exp) exactly; that of torch is linear beyond 20."""
    return values.new_zeros(()).logaddexp(values)


def fit_sentence_layer(
    head: HeadLogits,
    linear_map: LinearMap,
    weighing: Weighing = "example",
    rows: BoolArray | None = None,
) -> SentenceLayer:
    """Return the layer of maximum posterior over the sentences with labels.

    ``linear_map`` is that of the support logits, of which a layer is ignored; ``rows`` [B] are
    those to fit on, None for all. Without sentences of both kinds the layer changes nothing.
    """
    bare = replace(head, features=None, has_claim=None, lexical_overlap=None)
    means = probabilities(bare, linear_map).sentences
    known, weight = _known(head, weighing, rows)
    truth = head.truth[known]
    if head.features is None or len(np.unique(truth)) < 2:
        return NO_LAYER
    columns = [logits_of(means[known]), np.ones(len(truth))]
    inputs = np.column_stack([*columns, head.features[known]])
    values = _maximum(inputs, truth, weight, float(logits_of(np.array(_UNSUPPORTED))))
    return SentenceLayer(float(values[0]), float(values[1]), tuple(map(float, values[2:])))


def layer_under(linear_map: LinearMap, layer: SentenceLayer) -> SentenceLayer:
    """Return the layer whose sums stay nearly the same once a map has changed the tokens' logits.

    A sentence's logit is that of its tokens' mean probability, so it is mapped as one token.
    """
    scale = layer.scale / linear_map.scale
    return layer._replace(scale=scale, shift=layer.shift - scale * linear_map.shift)


def rescale_layer(
    head: HeadLogits,
    linear_map: LinearMap,
    weighing: Weighing = "example",
    rows: BoolArray | None = None,
) -> SentenceLayer:
    """Return the layer of ``linear_map`` with its logit, the weighted sum, scaled and shifted anew.

    So its weights keep their proportions; they may come from sources whose share of unsupported
    sentences is not that of answers. Arguments as of ``fit_sentence_layer``.

    Raises:
        DataError: The rows do not have sentences of both kinds.
    """
    known, weight = _known(head, weighing, rows)
    truth, layer = head.truth[known], linear_map.layer
    if len(np.unique(truth)) < 2:
        raise DataError(
            "support: needs labels of sentences of both kinds, 1 and 0, to fit its layer"
        )
    support = probabilities(head, linear_map).sentences[known]
    inputs = np.column_stack([logits_of(support), np.ones(len(truth))])
    low = layer.scale * float(logits_of(np.array(_UNSUPPORTED))) + layer.shift + layer.weights[0]
    scale, shift = map(float, _maximum(inputs, truth, weight, low))
    weights = tuple(scale * layer_weight for layer_weight in layer.weights)
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


def _maximum(inputs: FloatArray, truth: FloatArray, weight: FloatArray, low: float) -> FloatArray:
    """Return scale, shift and weights, if any. *Shapes:* [n, 2 + F], [n], [n] -> [2 + F].

    ``low`` is the logit of a sentence that the tokens call unsupported; whatever its lexical
    overlap, it stays at or below ``_LOW_LIMIT``.
    """
    import torch

    count = inputs.shape[1]
    start = np.append(1.0, np.zeros(count - 1))
    spread = np.full(count, _LAYER_SPREADS[-1])
    spread[:2] = _LAYER_SPREADS[:2]
    signed = inputs * np.where(truth == 1, 1.0, -1.0)[:, None]
    mean, deviation, rows, weights = map(torch.from_numpy, (start, spread, signed, weight))
    limit = float(logits_of(np.array(_LOW_LIMIT)))
    # The distance from the limit takes the place of the shift, since its bound is a number.
    reach = torch.zeros(count, dtype=torch.float64)
    reach[:3] = torch.tensor([low, 1.0, 1.0])[:count]

    def read(values: Tensor) -> Tensor:
        return torch.cat([values[:1], (limit - reach @ values)[None], values[2:]])

    def loss(values: Tensor) -> Tensor:
        layer = read(values)
        likelihood = weights @ torch.nn.functional.logsigmoid(rows @ layer)
        return ((layer - mean) / deviation).square().sum() / 2 - likelihood

    # Features after the first lower support.
    bounds = [(_LEAST_SCALE, None), (0, None), (0, None), *[(None, 0)] * (len(FEATURES) - 1)]
    first = np.array([1.0, max(0.0, limit - low), *start[2:]])
    minimum = minimize(loss, first, bounds[:count])
    result: FloatArray = read(torch.from_numpy(minimum)).numpy()
    return result


def choose_sources(pairs: HeadLogits, old: EvidenceInfo | None = None) -> EvidenceInfo:
    """Fit the map, and choose the threshold of best F1, to pairs as ``read_heads`` returns them.

    Without labels of both kinds the old map is kept, or the identity.
    """
    try:
        linear_map = fit(pairs, what="evidence", weighed=["lexical_overlap"])
    except DataError as error:
        logger.warning("%s; the sources are not calibrated", error)
        return old or EvidenceInfo(scale=1.0, shift=0.0, threshold=DEFAULT_THRESHOLD)
    overlap = pairs.lexical_overlap
    assert overlap is not None
    z = linear_map.scale * pairs.logits + linear_map.shift + linear_map.lexical_overlap * overlap
    known = ~np.isnan(pairs.truth)
    probs, truth = sigmoid(z[known]), pairs.truth[known]
    best = best_threshold(1 - probs, truth)
    chosen = EvidenceInfo(
        scale=linear_map.scale,
        shift=linear_map.shift,
        lexical_overlap=linear_map.lexical_overlap,
        threshold=1 - best.threshold if best else DEFAULT_THRESHOLD,
    )
    logger.info("evidence: %s", chosen)
    return chosen
