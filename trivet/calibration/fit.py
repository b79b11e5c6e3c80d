"""Fits of maps from a head's logits to probabilities, by the likelihood of labelled sentences.

A sentence's probability is the mean over its tokens, and labels are of sentences. So the map of the
tokens is fitted to the likelihood of the sentences. Support can also be fitted on whole responses,
whose probability is that of their weakest part or parts.

The map of a logit z is Platt's: scale * z + shift. Of the support head's three logits all are
scaled, the shift is entailment's, and z is entailment against the other two. The map of a context
head may also have a weight of lexical overlap (``data.lexical_overlap``): scale * z + shift +
weight * overlap. Support has a layer over its sentences as well (``fit_sentence_layer``).

Few labels are easily separated, and then their likelihood grows with the scale without end. So
labels are smoothed as by Platt (1999, "Probabilistic outputs for support vector machines", section
2.2): of n positive ones each is (n + 1) / (n + 2), of n negative ones 1 / (n + 2). And the prior of
a linear map is the map that changes nothing: the scale is 1 with a standard deviation of 0.5, the
change of the mean logit and the weight of overlap are 0 with one of 2. Among hundreds of examples
neither matters.

Letters are those of ``joining``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trivet.calibration.choices import Level, Weighing
from trivet.calibration.joining import HeadLogits, Probabilities, join_logits
from trivet.errors import DataError
from trivet.measures.curves import BoolArray, FloatArray
from trivet.model.aggregate import NO_LAYER, SentenceLayer
from trivet.model.architecture import Reduction

if TYPE_CHECKING:  # loaded late: thresholds alone need no torch
    from torch import Tensor

_Loss = Callable[["Tensor"], "Tensor"]  # logits of the positive class [M] or [T] -> loss

_SMALLEST = 1e-9  # least probability under a logarithm
_SCALE_SPREAD, _OTHER_SPREAD = 0.5, 2.0  # standard deviations of the prior
_LEAST_SPREAD = 0.02  # least spread of calibrated logits


@dataclass(frozen=True)
class LinearMap:
    """scale * z + shift + lexical_overlap * overlap of the token's sentence; scale > 0."""

    scale: float = 1.0
    shift: float = 0.0
    lexical_overlap: float = 0.0
    layer: SentenceLayer = NO_LAYER


IDENTITY = LinearMap()


def probabilities(
    head: HeadLogits, found: LinearMap, faithfulness: Reduction = "weakest_sentence"
) -> Probabilities:
    """Return the probabilities of a head's logits under a map, joined as in the model."""
    import torch

    margins = _margins(head, found.scale) + found.shift
    if head.lexical_overlap is not None:
        margins = margins + found.lexical_overlap * torch.from_numpy(head.lexical_overlap)
    joined = join_logits(head, margins, faithfulness, found.layer)
    return Probabilities(*(each.numpy() for each in joined))


def fit(
    head: HeadLogits,
    *,
    what: str,
    rows: BoolArray | None = None,
    level: Level = "sentence",
    faithfulness: Reduction = "weakest_sentence",
    weighing: Weighing = "example",
    lexical_overlap: bool = False,
) -> LinearMap:
    """Return the map of maximum likelihood over some examples, by default all.

    A level without labels is replaced by the other one; ``both`` weighs them equally. ``what`` is
    the name of the head in messages, ``lexical_overlap`` adds its weight.

    Raises:
        DataError: Labels of a class are missing, or labels and logits are not positively related.
    """
    import torch

    known = ~np.isnan(head.verdict)
    known[head.row[~np.isnan(head.truth)]] = True
    known &= head.weight > 0
    head = head.select(known if rows is None else known & rows)
    terms = _terms(head, level, weighing)
    if not terms:
        raise DataError(f"{what}: needs labels of both kinds, 1 and 0, to calibrate on")
    smooth = [
        (name, torch.from_numpy(_smoothed(truth, weight)), torch.from_numpy(weight / weight.sum()))
        for name, truth, weight in terms
    ]

    def loss(margins: Tensor) -> Tensor:
        _, sentences, whole = join_logits(head, margins, faithfulness)
        joined = {"sentences": sentences, "faithfulness": whole}
        total = margins.new_zeros(())
        for name, target, share in smooth:
            probs = joined[name].clip(_SMALLEST, 1 - _SMALLEST)
            likelihood = target * probs.log() + (1 - target) * torch.log1p(-probs)
            total = total - share @ likelihood / len(smooth)
        return total

    overlap = head.lexical_overlap if lexical_overlap else None
    count = max(float(weight.sum()) for *_, weight in terms)
    return _fit_linear(head, loss, what, overlap, count)


def minimize(
    objective: Callable[[Tensor], Tensor],
    start: FloatArray,
    bounds: Sequence[tuple[float | None, float | None]] = (),
) -> FloatArray:
    """Return a minimum of a function that torch can differentiate, by L-BFGS-B."""
    import torch
    from scipy import optimize  # of the extra ``train``, as torch is, which gives the logits

    def with_slopes(values: FloatArray) -> tuple[float, FloatArray]:
        given = torch.tensor(values, requires_grad=True)
        found = objective(given)
        (slopes,) = torch.autograd.grad(found, given)
        return float(found.detach()), slopes.numpy()

    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000}
    found: FloatArray = optimize.minimize(
        with_slopes, start, jac=True, method="L-BFGS-B", bounds=bounds or None, options=options
    ).x
    return found


def _terms(
    head: HeadLogits, level: Level, weighing: Weighing
) -> list[tuple[str, BoolArray, FloatArray]]:
    """Return (kind of probability, truth, weight) for each kind of label with both classes."""
    of_sentence = head.weight[head.row]
    if weighing == "example":
        of_sentence = of_sentence / np.bincount(head.row).clip(min=1)[head.row]
    kinds = {"sentences": (head.truth, of_sentence), "faithfulness": (head.verdict, head.weight)}
    found = {}
    for name, (truth, weight) in kinds.items():
        counts_too = ~np.isnan(truth) & (weight > 0)
        if len(np.unique(truth[counts_too])) == 2:
            found[name] = (name, truth == 1, weight * counts_too)
    asked = {"sentence": ["sentences"], "response": ["faithfulness"], "both": list(kinds)}[level]
    return [found[name] for name in asked if name in found] or list(found.values())


def _smoothed(truth: BoolArray, weight: FloatArray) -> FloatArray:
    """Return Platt's targets for marks; weights count the examples of each class."""
    positives, negatives = (weight * truth).sum(), (weight * ~truth).sum()
    targets: FloatArray = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    return targets


def _fit_linear(
    head: HeadLogits, loss: _Loss, what: str, overlap: FloatArray | None, count: float
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
        if overlap is not None:
            margins = margins + values[-1] * torch.from_numpy(overlap)
        far = ((scale - 1) / _SCALE_SPREAD) ** 2 + (values[1:] / _OTHER_SPREAD).square().sum()
        return loss(margins) + far / (2 * count)

    start = np.zeros(2 + (overlap is not None))
    start[0] = np.log(spread)  # the map that changes nothing
    found = minimize(objective, start)
    if (fitted := float(np.exp(found[0]))) < _LEAST_SPREAD:
        raise DataError(
            f"{what}: labels and logits are unrelated or inversely related (fitted, the logits' "
            f"spread is {fitted:.3f}); not fitted"
        )
    scale, shift = map(float, read(torch.from_numpy(found)))
    return LinearMap(scale, shift, 0.0 if overlap is None else float(found[-1]))


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
