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

Letters are those of ``joining``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.calibration.choices import Level, Method, Weighing
from trivet.calibration.joining import HeadLogits, Joined, Probabilities, highest, sigmoid
from trivet.errors import DataError
from trivet.measures.curves import FloatArray
from trivet.measures.intervals import BoolArray
from trivet.model.aggregate import NO_LAYER, SentenceLayer
from trivet.model.architecture import KNOTS, Reduction

Loss = Callable[[FloatArray], tuple[float, FloatArray]]
"""Logits of the positive class [M] or [T] -> loss, and its derivative by them."""

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


def probabilities(
    head: HeadLogits, found: Map, faithfulness: Reduction = "weakest_sentence"
) -> Probabilities:
    """Return the probabilities of a head's logits under a map, joined as in the model."""
    if isinstance(found, KnotMap):
        margins = _through_knots(_margins(head.logits)[0], found)
    else:
        margins = _margins(head.logits, found.scale)[0] + found.shift
        if head.lexical_overlap is not None:
            margins = margins + found.lexical_overlap * head.lexical_overlap
    return Joined(head, margins, faithfulness, found.layer).found


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
    known = ~np.isnan(head.verdict)
    known[head.row[~np.isnan(head.truth)]] = True
    known &= head.weight > 0
    head = head.select(known if rows is None else known & rows)
    terms = _terms(head, level, weighing)
    if not terms:
        raise DataError(f"{what}: needs labels of both kinds, 1 and 0, to calibrate on")
    smooth = {name: (_smoothed(truth, weight), weight) for name, truth, weight in terms}

    def loss(margins: FloatArray) -> tuple[float, FloatArray]:
        joined = Joined(head, margins, faithfulness)
        total, slopes = 0.0, {name: np.zeros(len(getattr(joined.found, name))) for name in _KINDS}
        for name, (target, weight) in smooth.items():
            given = getattr(joined.found, name)
            probs = np.clip(given, _SMALLEST, 1 - _SMALLEST)
            share = weight / weight.sum() / len(terms)
            likelihood = target * np.log(probs) + (1 - target) * np.log1p(-probs)
            total -= float(share @ likelihood)
            slopes[name] = share * ((1 - target) / (1 - probs) - target / probs) * (given == probs)
        return total, joined.slopes(*slopes.values())

    overlap = head.lexical_overlap if lexical_overlap and method == "platt" else None
    count = max(float(weight.sum()) for *_, weight in terms)
    linear = _fit_linear(head, loss, what, method != "temperature", overlap, count)
    if method != "isotonic" or (knots := min(KNOTS, int(count / _EXAMPLES_PER_KNOT))) < _FEWEST:
        return linear
    return _fit_knots(head, loss, linear, knots)


def minimize(
    objective: Loss, start: FloatArray, bounds: Sequence[tuple[float | None, float | None]] = ()
) -> FloatArray:
    """Return a minimum of a function that returns its value and gradient, by L-BFGS-B."""
    from scipy import optimize  # of the extra ``train``, as torch is, which gives the logits

    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000}
    found: FloatArray = optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=bounds or None, options=options
    ).x
    return found


_KINDS = ("sentences", "faithfulness")  # of probabilities, in the order of ``Joined.slopes``


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
    head: HeadLogits, loss: Loss, what: str, shifted: bool, overlap: FloatArray | None, count: float
) -> LinearMap:
    # In units of the logits' spread, and by the change of their mean, which are nearly independent.
    margins, _ = _margins(head.logits)
    middle = float(margins.mean())
    spread = max(float(margins.std(ddof=1)) if len(margins) > 1 else 0.0, 1e-6)

    def read(values: FloatArray) -> tuple[float, float]:
        scale = float(np.exp(values[0])) / spread
        return scale, middle * (1 - scale) + float(values[1]) if shifted else 0.0

    def objective(values: FloatArray) -> tuple[float, FloatArray]:
        scale, change = read(values)
        margins, by_scale = _margins(head.logits, scale)
        margins = margins + change
        if overlap is not None:
            margins = margins + values[-1] * overlap
        total, slopes = loss(margins)
        by_values = [scale * float(slopes @ (by_scale - middle * shifted))]
        by_values += [float(slopes.sum())] * shifted
        by_values += [] if overlap is None else [float(slopes @ overlap)]
        far = np.append((scale - 1) / _SCALE_SPREAD, values[1:] / _OTHER_SPREAD)
        of_far = np.append(scale * far[0] / _SCALE_SPREAD, far[1:] / _OTHER_SPREAD)
        return total + float(far @ far) / (2 * count), np.array(by_values) + of_far / count

    start = np.zeros(1 + shifted + (overlap is not None))
    start[0] = np.log(spread)  # the map that changes nothing
    found = minimize(objective, start)
    if (fitted := float(np.exp(found[0]))) < _LEAST_SPREAD:
        raise DataError(
            f"{what}: labels and logits are unrelated or inversely related (fitted, the logits' "
            f"spread is {fitted:.3f}); not fitted"
        )
    return LinearMap(*read(found), 0.0 if overlap is None else float(found[-1]))


def _fit_knots(head: HeadLogits, loss: Loss, linear: LinearMap, knots: int) -> Map:
    """Fit a piecewise-linear map with knots at quantiles of the logits."""
    margins, _ = _margins(head.logits)
    if head.token is not None and head.is_evidence is None:
        margins, _ = highest(margins, head.token, len(head.sentence))
    places = np.quantile(margins, np.linspace(_TAIL, 1 - _TAIL, knots))
    # Nearly equal knots would have an undetermined slope.
    apart = np.concatenate([[True], np.diff(places) > 1e-3 * max(float(np.ptp(places)), 1e-6)])
    x = places[apart]
    if len(x) < _FEWEST:
        return linear
    steps = np.diff(x)
    # softplus(slopes) * steps + the least slope: always rising.
    slope = np.log(np.expm1(max(linear.scale - _LEAST_SLOPE, 1e-3)))
    start = np.append(x[0] * linear.scale + linear.shift, np.full(len(steps), slope))

    def heights(values: FloatArray) -> FloatArray:
        rises = (np.logaddexp(0.0, values[1:]) + _LEAST_SLOPE) * steps
        y: FloatArray = values[0] + np.append(0.0, np.cumsum(rises))
        return y

    place = np.clip(np.searchsorted(x, margins), 1, len(x) - 1) - 1
    share = (margins - x[place]) / steps[place]

    def objective(values: FloatArray) -> tuple[float, FloatArray]:
        y = heights(values)
        total, slopes = loss(y[place] + share * (y[place + 1] - y[place]))
        by_height = np.bincount(place, slopes * (1 - share), len(x))
        by_height += np.bincount(place + 1, slopes * share, len(x))
        above = np.cumsum(by_height[::-1])[::-1]  # of this knot and all after it
        by_values = np.append(above[0], above[1:] * sigmoid(values[1:]) * steps)
        bends = np.diff(values[1:])
        by_values[1:] += 2 * _SMOOTHNESS * (np.append(0.0, bends) - np.append(bends, 0.0))
        return total + _SMOOTHNESS * float(bends @ bends), by_values

    y = heights(minimize(objective, start))
    return KnotMap(tuple(x.tolist()), tuple(y.tolist()))


def _through_knots(margins: FloatArray, found: KnotMap) -> FloatArray:
    """Return logits under a piecewise-linear map. *Shapes:* [M] -> [M]."""
    x, y = np.array(found.x), np.array(found.y)
    place = np.clip(np.searchsorted(x, margins), 1, len(x) - 1) - 1
    mapped: FloatArray = y[place] + (margins - x[place]) * (np.diff(y) / np.diff(x))[place]
    return mapped


def _margins(logits: FloatArray, scale: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Return the logit of the positive class of scaled logits, and its derivative by the scale.

    Of two or three logits it is that of the first class. *Shapes:* [M] or [M, 2 or 3] -> [M] x 2.
    """
    if logits.ndim == 1:
        return logits * scale, logits
    if logits.shape[1] == 2:
        apart = logits[:, 0] - logits[:, 1]
        return apart * scale, apart
    entailment, neutral, contradiction = logits.T
    apart = contradiction - neutral
    margins = scale * (entailment - neutral) - np.logaddexp(0.0, scale * apart)
    return margins, entailment - neutral - sigmoid(scale * apart) * apart
