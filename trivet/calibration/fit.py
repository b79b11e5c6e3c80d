"""Fits of maps from a head's logits to probabilities, by the likelihood of labelled sentences.

A sentence's probability is the mean over its tokens, and labels are of sentences. So the map of the
tokens is fitted to the likelihood of the sentences. Support can also be fitted on whole responses,
whose probability is that of their weakest part or parts.

Maps of a logit z: temperature (scale * z), Platt (scale * z + shift), isotonic (rising and
piecewise linear, at most 16 knots and one for 5 examples; a line with fewer than 15). Of the
support head's three logits all are scaled, the shift is entailment's, and z is entailment against
the other two. A Platt map of a context head may also have a weight of lexical overlap
(``data.lexical_overlap``): scale * z + shift + weight * overlap. Support has a layer over its
sentences as well (``fit_sentence_layer``).

Few labels are easily separated, and then their likelihood grows with the scale without end. So
labels are smoothed as by Platt (1999, "Probabilistic outputs for support vector machines", section
2.2): of n positive ones each is (n + 1) / (n + 2), of n negative ones 1 / (n + 2). And the prior of
a linear map is the map that changes nothing: the scale is 1 with a standard deviation of 0.5, the
change of the mean logit and the weight of overlap are 0 with one of 2. Among hundreds of examples
neither matters.

Letters: M copies of tokens in windows, T tokens, S sentences, B examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trivet.calibration.choices import Level, Method, Weighing
from trivet.data.tokenization import BoolArray
from trivet.errors import DataError
from trivet.model.aggregate import NO_LAYER, SentenceLayer, join_evidence, weigh_sentences
from trivet.model.architecture import Reduction
from trivet.model.calibration import KNOTS, PiecewiseLinear, entailment_logit

_SMALLEST = 1e-9  # least probability under a logarithm
_SCALE_SPREAD, _OTHER_SPREAD = 0.5, 2.0  # standard deviations of the prior
_SMOOTHNESS = 1e-4  # in nats; weight of an isotonic map's changes of slope
_LEAST_SPREAD = 0.02  # least spread of calibrated logits
_LEAST_SLOPE = 0.02  # least slope of an isotonic map, to avoid ties
_FEWEST, _EXAMPLES_PER_KNOT = 3, 5  # knots; with fewer the isotonic map is linear
_TAIL = 0.005  # share of logits beyond the outer knots


@dataclass(frozen=True)
class LinearMap:
    """scale * z + shift + lexical_overlap * overlap of the token's sentence; scale > 0."""

    scale: float = 1.0
    shift: float = 0.0
    lexical_overlap: float = 0.0
    layer: SentenceLayer = NO_LAYER


@dataclass(frozen=True)
class KnotMap:
    """A rising piecewise-linear map through (x, y), extrapolated with the outer slopes."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    layer: SentenceLayer = NO_LAYER


Map = LinearMap | KnotMap
IDENTITY = LinearMap()


@dataclass(frozen=True)
class HeadLogits:
    """The logits of one head for all examples, and their labels."""

    logits: Tensor  # of copies: [M], or [M, 3] or [M, 2] for support
    token: Tensor | None  # token of each copy [M]; None if every token has one copy
    sentence: Tensor  # sentence of each token, over all examples [T]
    row: Tensor  # example of each sentence [S]
    truth: Tensor  # labels of sentences: 1, 0, NaN where unknown [S]
    verdict: Tensor  # labels of responses: 1, 0 or NaN; all NaN for context heads [B]
    weight: Tensor  # of examples [B]
    lexical_overlap: Tensor | None = None  # of each copy's sentence [M]; None where unknown
    is_evidence: Tensor | None = None  # copies in evidence windows [M]; None if there are none
    features: Tensor | None = (
        None  # of sentences (``data.sentence_features``) [S, F]; support alone
    )
    has_claim: Tensor | None = None  # of sentences [S]; None if all have


@dataclass(frozen=True)
class Probabilities:
    """Probabilities of tokens [T], sentences [S] and responses [B] (1 without a token)."""

    tokens: Tensor
    sentences: Tensor
    faithfulness: Tensor


def probabilities(
    head: HeadLogits, found: Map, faithfulness: Reduction = "weakest_sentence"
) -> Probabilities:
    """Return the probabilities of a head's logits under a map, joined as in the model."""
    if isinstance(found, KnotMap):
        piecewise = PiecewiseLinear(found.x, found.y).double()
        return _joined(head, piecewise(_margin(head.logits)), faithfulness, found.layer)
    shift = torch.tensor(found.shift, dtype=torch.float64)
    margins = _linear(head.logits, torch.tensor(found.scale), shift)
    if head.lexical_overlap is not None:
        margins = margins + found.lexical_overlap * head.lexical_overlap
    return _joined(head, margins, faithfulness, found.layer)


def fit(
    head: HeadLogits,
    method: Method,
    *,
    what: str,
    rows: BoolArray | None = None,
    level: Level = "sentence",
    faithfulness: Reduction = "weakest_sentence",
    weighing: Weighing = "example",
    lexical_overlap: bool = False,
) -> Map:
    """Return the map of maximum likelihood over some examples, by default all.

    A level without labels is replaced by the other one; ``both`` weighs them equally. ``what`` is
    the name of the head in messages, ``lexical_overlap`` adds its weight to a Platt map.

    Raises:
        DataError: Labels of a class are missing, or labels and logits are not positively related.
    """
    known = (~head.verdict.isnan()).index_fill(0, head.row[~head.truth.isnan()], True)
    known &= head.weight > 0
    head = _select(head, known if rows is None else known & torch.from_numpy(rows))
    terms = _terms(head, level, weighing)
    if not terms:
        raise DataError(f"{what}: needs labels of both kinds, 1 and 0, to calibrate on")

    smooth = [(name, _smoothed(truth, weight), weight) for name, truth, weight in terms]

    def loss(margins: Tensor) -> Tensor:
        joined = _joined(head, margins, faithfulness)
        total = margins.new_zeros(())
        for name, target, weight in smooth:
            probs = getattr(joined, name).clamp(_SMALLEST, 1 - _SMALLEST)
            likelihood = target * probs.log() + (1 - target) * (1 - probs).log()
            total = total - (weight * likelihood).sum() / weight.sum() / len(terms)
        return total

    weighed = lexical_overlap and method == "platt" and head.lexical_overlap is not None
    count = max(float(weight.sum()) for *_, weight in terms)
    linear = _fit_linear(head, loss, what, method != "temperature", weighed, count)
    if method != "isotonic" or (knots := min(KNOTS, int(count / _EXAMPLES_PER_KNOT))) < _FEWEST:
        return linear
    return _fit_knots(head, loss, linear, knots)


def _select(head: HeadLogits, rows: Tensor) -> HeadLogits:
    """Return the logits and labels of some examples. *Shape of rows:* [B]."""

    def renumbered(place: Tensor, kept: Tensor) -> Tensor:
        return (kept.cumsum(0) - 1)[place]

    sentences = rows[head.row]
    tokens = sentences[head.sentence]
    copies = tokens if head.token is None else tokens[head.token]
    return HeadLogits(
        logits=head.logits[copies],
        token=None if head.token is None else renumbered(head.token[copies], tokens),
        sentence=renumbered(head.sentence[tokens], sentences),
        row=renumbered(head.row[sentences], rows),
        truth=head.truth[sentences],
        verdict=head.verdict[rows],
        weight=head.weight[rows],
        lexical_overlap=None if head.lexical_overlap is None else head.lexical_overlap[copies],
        is_evidence=None if head.is_evidence is None else head.is_evidence[copies],
        features=None if head.features is None else head.features[sentences],
        has_claim=None if head.has_claim is None else head.has_claim[sentences],
    )


def _terms(head: HeadLogits, level: Level, weighing: Weighing) -> list[tuple[str, Tensor, Tensor]]:
    """Return (kind of probability, truth, weight) for each kind of label with both classes."""
    of_sentence = head.weight[head.row]
    if weighing == "example":
        of_sentence = of_sentence / torch.bincount(head.row).clamp(min=1)[head.row]
    kinds = {"sentences": (head.truth, of_sentence), "faithfulness": (head.verdict, head.weight)}
    found = {}
    for name, (truth, weight) in kinds.items():
        counts_too = ~truth.isnan() & (weight > 0)
        if len(truth[counts_too].unique()) == 2:
            found[name] = (name, truth == 1, weight * counts_too)
    asked = {"sentence": ["sentences"], "response": ["faithfulness"], "both": list(kinds)}[level]
    return [found[name] for name in asked if name in found] or list(found.values())


def _smoothed(truth: Tensor, weight: Tensor) -> Tensor:
    """Return Platt's targets for marks; weights count the examples of each class."""
    positives, negatives = (weight * truth).sum(), (weight * ~truth).sum()
    return torch.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))


def _fit_linear(
    head: HeadLogits,
    loss: Callable[[Tensor], Tensor],
    what: str,
    shifted: bool,
    weighed: bool,
    count: float,
) -> LinearMap:
    # In units of the logits' spread, and by the change of their mean, which are nearly independent.
    margins = _margin(head.logits)
    middle, spread = margins.mean(), margins.std().clamp(min=1e-6)

    def read(values: Tensor) -> tuple[Tensor, Tensor]:
        scale = values[0].exp() / spread
        change = middle * (1 - scale) + values[1] if shifted else torch.zeros_like(scale)
        return scale, change

    def objective(values: Tensor) -> Tensor:
        margins = _linear(head.logits, *read(values))
        if weighed and head.lexical_overlap is not None:
            margins = margins + values[2] * head.lexical_overlap
        far = (values[0].exp() / spread - 1) / _SCALE_SPREAD, values[1:] / _OTHER_SPREAD
        return loss(margins) + sum(each.square().sum() for each in far) / (2 * count)

    start = torch.zeros(1 + shifted + weighed, dtype=torch.float64)
    start[0] = spread.log()  # the map that changes nothing
    found = _minimum(objective, start)
    if float(found[0].exp()) < _LEAST_SPREAD:
        raise DataError(
            f"{what}: labels and logits are unrelated or inversely related (fitted, the logits' "
            f"spread is {float(found[0].exp()):.3f}); not fitted"
        )
    scale, shift = (float(value) for value in read(found))
    return LinearMap(scale, shift, float(found[2]) if weighed else 0.0)


def _fit_knots(
    head: HeadLogits, loss: Callable[[Tensor], Tensor], linear: LinearMap, knots: int
) -> Map:
    """Fit a piecewise-linear map with knots at quantiles of the logits."""
    margins = _margin(head.logits)
    if head.token is not None and head.is_evidence is None:
        margins = _highest(margins, head.token, len(head.sentence))
    places = np.quantile(margins.numpy(), np.linspace(_TAIL, 1 - _TAIL, knots))
    # Nearly equal knots would have an undetermined slope.
    apart = np.concatenate([[True], np.diff(places) > 1e-3 * max(float(np.ptp(places)), 1e-6)])
    x = torch.from_numpy(places[apart])
    if len(x) < _FEWEST:
        return linear
    steps = x.diff()
    # softplus(slopes) * steps + the least slope: always rising.
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
        return loss(mapped) + _SMOOTHNESS * values[1:].diff().square().sum()

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
    """Return the logit of the positive class. *Shape:* [M]."""
    return logits if logits.ndim == 1 else entailment_logit(logits)


def _joined(
    head: HeadLogits,
    margins: Tensor,
    faithfulness: Reduction,
    layer: SentenceLayer = NO_LAYER,
) -> Probabilities:
    """Join like ``trivet.model.aggregate``, over ragged examples; margins are [M] or [T]."""
    count = len(head.sentence)
    if head.token is not None and head.is_evidence is not None:
        ordinary, gathered = (
            _highest(margins[some], head.token[some], count)
            for some in (~head.is_evidence, head.is_evidence)
        )
        windows = torch.bincount(head.token[~head.is_evidence], minlength=count)
        margins = join_evidence(ordinary, gathered, gathered > -torch.inf, windows)
    elif head.token is not None and len(margins) != count:
        margins = _highest(margins, head.token, count)
    tokens = margins.sigmoid()
    sizes = torch.bincount(head.sentence, minlength=len(head.row)).clamp(min=1)
    sums = tokens.new_zeros(len(head.row)).index_add(0, head.sentence, tokens)
    sentences = sums / sizes
    if head.features is not None:
        sentences = weigh_sentences(sentences, head.features, layer)
    parts, place = sentences, head.row
    if head.has_claim is not None:
        sentences = torch.where(head.has_claim, sentences, 1.0)
        parts, place = sentences[head.has_claim], head.row[head.has_claim]
    if faithfulness == "weakest_token":
        parts, place = tokens, head.row[head.sentence]
    whole = _lowest(parts, place, len(head.weight))
    if faithfulness == "two_weakest_sentences":
        at_lowest = parts <= whole[place]
        lowest = torch.bincount(place[at_lowest], minlength=len(whole))
        following = _lowest(parts[~at_lowest], place[~at_lowest], len(whole))
        has_next = (lowest == 1) & (torch.bincount(place, minlength=len(whole)) > 1)
        whole = whole + (torch.where(has_next, following, whole) - whole) / 3
    return Probabilities(tokens, sentences, whole)


def _lowest(parts: Tensor, place: Tensor, count: int) -> Tensor:
    """Return the minimum of the parts of each response, 1 without any. *Shapes:* [P] x 2 -> [B]."""
    return parts.new_ones(count).scatter_reduce(0, place, parts, "amin")


def _highest(margins: Tensor, token: Tensor, count: int) -> Tensor:
    """Return the maximum over each token's copies. *Shapes:* [M], [M] -> [T]."""
    lowest = margins.new_full((count,), -torch.inf)
    return lowest.scatter_reduce(0, token, margins, "amax", include_self=False)
