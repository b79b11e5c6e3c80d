"""Fits the map from a head's logits to probabilities, by the likelihood of labelled sentences.

What people read is a sentence's probability, the mean over its tokens, and a label is a sentence's
too: so the map of the tokens is fitted until the *sentences* are likely, not the tokens. Support
can be fitted on whole responses as well, whose probability is that of their weakest part.

Maps of a logit z: temperature (scale * z), Platt (scale * z + shift), isotonic (rising and
piecewise linear, at most 16 knots). The support head has three logits; all three are scaled, the
shift is entailment's, and z is entailment against the other two. So a linear map can be folded into
any head's last layer. A Platt map may weigh the overlap of its sentences' words as well
(``data.lexical_overlap``): scale * z + shift + weight * overlap, and the model adds that term.

Letters: M copies of tokens in windows, T tokens, S sentences, B examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from trivet.data.segment_tokenizer import BoolArray
from trivet.model.architecture import Reduction
from trivet.model.calibration import KNOTS, PiecewiseLinear, entailment_logit
from trivet.records import DataError

Method = Literal["platt", "temperature", "isotonic"]
Level = Literal["sentence", "response", "both"]
Weighing = Literal["example", "sentence"]

_SMALLEST = 1e-9  # of a probability under a logarithm
_PRIOR = 1e-4  # of a nat: holds a map that the labels leave open, as a clean separation does
_LEAST_SPREAD = 0.02  # of calibrated logits: below it all of them say the same
_LEAST_SLOPE = 0.02  # an isotonic map keeps the order of logits: no ties are made
_TAIL = 0.005  # share of the logits beyond the outer knots


@dataclass(frozen=True)
class LinearMap:
    """scale * z + shift + overlap * the tokens' overlap, scale > 0."""

    scale: float = 1.0
    shift: float = 0.0
    overlap: float = 0.0


@dataclass(frozen=True)
class KnotMap:
    """A rising piecewise-linear map through (x, y), going on beyond its ends with their slopes."""

    x: tuple[float, ...]
    y: tuple[float, ...]


Map = LinearMap | KnotMap
IDENTITY = LinearMap()


@dataclass(frozen=True)
class HeadLogits:
    """What one head said of the examples, and what is known of them.

    Attributes:
        logits: *Shape:* [M], or [M, 3] for support.
        token: The token that each copy shows; None where every token has one copy. *Shape:* [M].
        sentence: The sentence of each token, over all examples. *Shape:* [T].
        row: The example of each sentence. *Shape:* [S].
        truth: 1 or 0, NaN where unknown. *Shape:* [S].
        verdict: 1, 0 or NaN of whole responses; all NaN for the context heads. *Shape:* [B].
        weight: Of each example. *Shape:* [B].
        overlap: Of each copy, what ``data.lexical_overlap`` says of its sentence; None where unknown.
            *Shape:* [M].
    """

    logits: Tensor
    token: Tensor | None
    sentence: Tensor
    row: Tensor
    truth: Tensor
    verdict: Tensor
    weight: Tensor
    overlap: Tensor | None = None


@dataclass(frozen=True)
class Probabilities:
    """Of tokens [T], sentences [S] and examples' weakest parts [B] (1 without a token)."""

    tokens: Tensor
    sentences: Tensor
    weakest: Tensor


def probabilities(
    head: HeadLogits, found: Map, faithfulness: Reduction = "weakest_sentence"
) -> Probabilities:
    """Return what the head's logits mean under a map, joined as the model joins them."""
    if isinstance(found, KnotMap):
        piecewise = PiecewiseLinear(found.x, found.y).double()
        return _joined(head, piecewise(_margin(head.logits)), faithfulness)
    shift = torch.tensor(found.shift, dtype=torch.float64)
    margins = _linear(head.logits, torch.tensor(found.scale), shift)
    if head.overlap is not None:
        margins = margins + found.overlap * head.overlap
    return _joined(head, margins, faithfulness)


def fit(
    head: HeadLogits,
    method: Method,
    *,
    what: str,
    rows: BoolArray | None = None,
    level: Level = "sentence",
    faithfulness: Reduction = "weakest_sentence",
    weighing: Weighing = "example",
    overlap: bool = False,
) -> Map:
    """Return the map under which the labels are most likely.

    Args:
        head: The logits and the labels.
        method: The kind of map.
        what: Named when nothing can be fitted.
        rows: Which examples count; all by default. *Shape:* [B].
        level: Whether sentences, whole responses or both (each half) must be likely. Where one
            kind of label is missing altogether the other decides.
        faithfulness: What a response's weakest part is.
        weighing: Whether each example counts once, or each sentence.
        overlap: Whether a Platt map weighs overlaps, where the head has them.

    Raises:
        DataError: Nothing is known, all known labels are the same, or they run against the logits.
    """
    known = (~head.verdict.isnan()).index_fill(0, head.row[~head.truth.isnan()], True)
    known &= head.weight > 0
    head = _select(head, known if rows is None else known & torch.from_numpy(rows))
    terms = _terms(head, level, weighing)
    if not terms:
        raise DataError(f"{what}: needs labels of both kinds, 1 and 0, to calibrate on")

    def loss(margins: Tensor) -> Tensor:
        joined = _joined(head, margins, faithfulness)
        total = margins.new_zeros(())
        for name, truth, weight in terms:
            probs = getattr(joined, name).clamp(_SMALLEST, 1 - _SMALLEST)
            likelihood = torch.where(truth, probs, 1 - probs).log()
            total = total - (weight * likelihood).sum() / weight.sum() / len(terms)
        return total

    overlap = overlap and method == "platt" and head.overlap is not None
    linear = _fit_linear(head, loss, what, method != "temperature", overlap)
    return _fit_knots(head, loss, linear) if method == "isotonic" else linear


def _select(head: HeadLogits, rows: Tensor) -> HeadLogits:
    """Keep some of the examples; rows [B] says which."""
    sentences = rows[head.row]
    tokens = sentences[head.sentence]
    copies = tokens if head.token is None else tokens[head.token]

    def renumbered(place: Tensor, kept: Tensor) -> Tensor:
        return (kept.cumsum(0) - 1)[place]

    return HeadLogits(
        logits=head.logits[copies],
        token=None if head.token is None else renumbered(head.token[copies], tokens),
        sentence=renumbered(head.sentence[tokens], sentences),
        row=renumbered(head.row[sentences], rows),
        truth=head.truth[sentences],
        verdict=head.verdict[rows],
        weight=head.weight[rows],
        overlap=None if head.overlap is None else head.overlap[copies],
    )


def _terms(head: HeadLogits, level: Level, weighing: Weighing) -> list[tuple[str, Tensor, Tensor]]:
    """Return (which probabilities, truth, weight) of every kind of label that has both classes."""
    of_sentence = head.weight[head.row]
    if weighing == "example":
        of_sentence = of_sentence / torch.bincount(head.row).clamp(min=1)[head.row]
    kinds = {"sentences": (head.truth, of_sentence), "weakest": (head.verdict, head.weight)}
    found = {}
    for name, (truth, weight) in kinds.items():
        counts_too = ~truth.isnan() & (weight > 0)
        if len(truth[counts_too].unique()) == 2:
            found[name] = (name, truth == 1, weight * counts_too)
    asked = {"sentence": ["sentences"], "response": ["weakest"], "both": list(kinds)}[level]
    return [found[name] for name in asked if name in found] or list(found.values())


def _fit_linear(
    head: HeadLogits, loss: Callable[[Tensor], Tensor], what: str, shifted: bool, overlap: bool
) -> LinearMap:
    # In units of the logits' own middle and spread, so that any head starts near its fit.
    margins = _margin(head.logits)
    middle, spread = margins.mean(), margins.std().clamp(min=1e-6)

    def read(values: Tensor) -> tuple[Tensor, Tensor]:
        scale = values[0].exp() / spread
        return scale, values[1] - scale * middle if shifted else torch.zeros_like(scale)

    def objective(values: Tensor) -> Tensor:
        margins = _linear(head.logits, *read(values))
        if overlap and head.overlap is not None:
            margins = margins + values[2] * head.overlap
        return loss(margins) + _PRIOR * values.square().sum()

    found = _minimum(objective, torch.zeros(1 + shifted + overlap, dtype=torch.float64))
    if float(found[0].exp()) < _LEAST_SPREAD:
        raise DataError(
            f"{what}: the labels run against the logits or do not depend on them (fitted, the "
            f"logits' spread is {float(found[0].exp()):.3f}); not fitted"
        )
    scale, shift = (float(value) for value in read(found))
    return LinearMap(scale, shift, float(found[2]) if overlap else 0.0)


def _fit_knots(head: HeadLogits, loss: Callable[[Tensor], Tensor], linear: LinearMap) -> Map:
    """Bend the linear map at quantiles of the logits."""
    margins = _margin(head.logits)
    if head.token is not None:
        margins = _highest(margins, head.token, len(head.sentence))
    places = np.quantile(margins.numpy(), np.linspace(_TAIL, 1 - _TAIL, KNOTS))
    # Knots that all but coincide would need a slope of their own.
    apart = np.concatenate([[True], np.diff(places) > 1e-3 * max(float(np.ptp(places)), 1e-6)])
    x = torch.from_numpy(places[apart])
    if len(x) < 3:
        return linear
    steps = x.diff()
    # softplus(slopes) * steps + the least slope: rising whatever the values are.
    slope = torch.tensor(max(linear.scale - _LEAST_SLOPE, 1e-3), dtype=torch.float64)
    start = torch.cat([x[:1] * linear.scale + linear.shift, slope.expm1().log().expand(len(steps))])

    def heights(values: Tensor) -> Tensor:
        rises = (torch.nn.functional.softplus(values[1:]) + _LEAST_SLOPE) * steps
        return torch.cat([values[:1], values[:1] + rises.cumsum(0)])

    place = torch.searchsorted(x, margins.contiguous()).clamp(1, len(x) - 1) - 1
    share = (margins - x[place]) / steps[place]

    def objective(values: Tensor) -> Tensor:
        y = heights(values)
        mapped = torch.lerp(y[place], y[place + 1], share)
        return loss(mapped) + _PRIOR * values[1:].diff().square().sum()

    y = heights(_minimum(objective, start))
    return KnotMap(tuple(x.tolist()), tuple(y.tolist()))


def _minimum(objective: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    values = start.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS(
        [values], max_iter=100, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = objective(values)
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(closure)
    return values.detach()


def _linear(logits: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    if logits.ndim == 1:
        return logits * scale + shift
    return _margin(logits * scale) + shift


def _margin(logits: Tensor) -> Tensor:
    """Return the logit of P(entailment); a context head's logit is one. *Shape:* [M]."""
    return logits if logits.ndim == 1 else entailment_logit(logits)


def _joined(head: HeadLogits, margins: Tensor, faithfulness: Reduction) -> Probabilities:
    """Join as ``trivet.model.aggregate`` does, over ragged examples; margins [M] or [T]."""
    count = len(head.sentence)
    if head.token is not None and len(margins) != count:
        margins = _highest(margins, head.token, count)
    tokens = margins.sigmoid()
    sizes = torch.bincount(head.sentence, minlength=len(head.row)).clamp(min=1)
    sums = tokens.new_zeros(len(head.row)).index_add(0, head.sentence, tokens)
    sentences = sums / sizes
    parts, place = (
        (sentences, head.row)
        if faithfulness == "weakest_sentence"
        else (tokens, head.row[head.sentence])
    )
    weakest = tokens.new_ones(len(head.weight)).scatter_reduce(0, place, parts, "amin")
    return Probabilities(tokens, sentences, weakest)


def _highest(margins: Tensor, token: Tensor, count: int) -> Tensor:
    """Return the highest of each token's copies. *Shapes:* [M], [M] -> [T]."""
    lowest = margins.new_full((count,), -torch.inf)
    return lowest.scatter_reduce(0, token, margins, "amax", include_self=False)
