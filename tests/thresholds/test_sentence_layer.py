"""The layer over sentences against a minimum of its loss, written anew and without gradients."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy import optimize

from tests.thresholds.test_fit import head
from trivet.bundle.bundle import read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.data.sentence_features import FEATURES
from trivet.model.aggregate import weigh_sentences
from trivet.model.architecture import SentenceLayer
from trivet.thresholds import fit as sentence_layer
from trivet.thresholds.fit import LinearMap

FloatArray = npt.NDArray[np.float64]


LOW, LIMIT = float(np.log(0.02 / 0.98)), float(np.log(0.3 / 0.7))


@pytest.mark.parametrize("seed", range(20))
def test_a_layer_has_the_least_loss_under_its_bounds(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, width = int(random.integers(5, 200)), 2 + len(FEATURES)
    inputs = np.column_stack([random.normal(size=n) * 3, np.ones(n), random.random((n, width - 2))])
    truth = (random.random(n) < 1 / (1 + np.exp(-inputs @ random.normal(size=width)))).astype(float)
    truth[:2] = 0, 1
    weight = random.random(n) + 0.1
    fitted = sentence_layer._maximum(inputs, truth, weight, LOW)

    spread = np.array([0.5, 5.0, *np.ones(width - 2)])
    start = np.append(1.0, np.zeros(width - 1))
    sign = 2 * truth - 1

    def loss(values: FloatArray) -> float:
        far = (values - start) / spread
        return float(weight @ np.logaddexp(0, -sign * (inputs @ values)) + far @ far / 2)

    low = {"type": "ineq", "fun": lambda v: LIMIT - (v[0] * LOW + v[1] + v[2])}
    bounds = [(0.05, None), (None, None), (0, None), *[(None, 0)] * (width - 3)]
    known = optimize.minimize(
        loss, start, method="SLSQP", bounds=bounds, constraints=[low], tol=1e-12
    )
    assert loss(fitted) <= known.fun + 1e-6
    assert fitted == pytest.approx(known.x, abs=5e-3)
    assert fitted[0] >= 0.05 and fitted[2] >= 0 and (fitted[3:] <= 0).all()


@pytest.mark.parametrize("seed", range(10))
def test_overlap_alone_never_saves_a_sentence_that_its_tokens_call_unsupported(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, features = 300, np.zeros((300, len(FEATURES)))
    features[:, 0] = random.random(n)
    # Rows that mislead: what shares words is right, whatever the tokens say.
    labelled = replace(head(random.normal(size=n) - 4, features[:, 0] > 0.5), features=features)
    layer = sentence_layer.fit_sentence_layer(labelled, LinearMap())
    again = sentence_layer.rescale_layer(labelled, LinearMap(layer=layer))
    for fitted in (layer, again):
        reached = fitted.scale * LOW + fitted.shift + max(0.0, fitted.weights[0])
        assert 1 / (1 + np.exp(-reached)) <= 0.3 + 1e-9


def test_nor_does_it_in_the_embedded_bundle() -> None:
    calibration = read_bundle(EMBEDDED_BUNDLE).info.calibration
    assert calibration is not None
    ranges = [(0.0, 1.0)] * 2 + [(0.0, 2.0)] * (len(FEATURES) - 2)
    corners = np.array(list(itertools.product(*ranges)))  # the layer is monotone in each feature
    support = weigh_sentences(np.array([[0.02]]), corners[None], calibration.sentence_layer())
    assert support.max() <= 0.3 + 1e-6


def test_under_another_map_of_the_tokens_a_layer_says_the_same() -> None:
    random = np.random.default_rng(0)
    tokens = random.normal(size=300) * 2
    labelled = replace(head(tokens, tokens > 0), features=random.random((300, len(FEATURES))))
    layer = SentenceLayer(0.5, -2.0, (1.0, *np.full(len(FEATURES) - 1, -0.4)))
    map_ = LinearMap(1.7, -0.8)
    under = replace(map_, layer=sentence_layer.layer_under(map_, layer))
    says = [sentence_layer.probabilities(labelled, m) for m in (LinearMap(layer=layer), under)]
    assert says[0].tokens != pytest.approx(says[1].tokens, abs=0.1)
    assert says[0].sentences == pytest.approx(says[1].sentences)


def test_a_rescaled_layer_keeps_the_proportions_of_its_weights() -> None:
    random = np.random.default_rng(0)
    n, layer = 20_000, SentenceLayer(0.5, -2.0, (1.0, -1.5, *np.zeros(len(FEATURES) - 2)))
    logits, features = random.normal(size=n) * 2, np.zeros((n, len(FEATURES)))
    features[:, :2] = random.random((n, 2))
    sum_ = 0.5 * logits - 2 + features[:, :2] @ [1.0, -1.5]
    truth = random.random(n) < 1 / (1 + np.exp(-(0.8 * sum_ + 1.0)))
    labelled = replace(head(logits, truth), features=features)
    rescaled = sentence_layer.rescale_layer(labelled, LinearMap(layer=layer))
    scale = rescaled.scale / layer.scale
    assert scale == pytest.approx(0.8, abs=0.1)
    assert rescaled.shift == pytest.approx(scale * -2 + 1.0, abs=0.3)
    assert rescaled.weights == pytest.approx([scale * weight for weight in layer.weights])
