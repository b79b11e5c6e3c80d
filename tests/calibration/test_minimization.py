"""Minima against scipy's, of functions with and without edges and bounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import optimize

from trivet.calibration import sentence_layer
from trivet.calibration.minimization import minimize
from trivet.data.sentence_features import FEATURES

FloatArray = npt.NDArray[np.float64]


def valley(x: FloatArray) -> tuple[float, FloatArray]:
    """Return Rosenbrock's function, whose minimum at (1, 1) lies in a bent valley."""
    return float(optimize.rosen(x)), np.asarray(optimize.rosen_der(x))


def edge(x: FloatArray) -> tuple[float, FloatArray]:
    """Return |x - 2| + (y + 1)^2, which has an edge through its minimum."""
    value = abs(x[0] - 2) + (x[1] + 1) ** 2
    return float(value), np.array([np.sign(x[0] - 2), 2 * (x[1] + 1)])


def test_a_minimum_is_found() -> None:
    assert minimize(valley, np.array([-1.2, 1.0])) == pytest.approx(1.0, abs=1e-5)
    assert minimize(edge, np.array([-3.0, 4.0])) == pytest.approx([2.0, -1.0], abs=1e-5)
    there = np.array([1.0, 1.0])
    assert minimize(valley, there) == pytest.approx(there)


@pytest.mark.parametrize("seed", range(20))
def test_a_sentence_layer_is_the_one_that_scipy_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, width = int(random.integers(5, 200)), 2 + len(FEATURES)
    inputs = np.column_stack([random.normal(size=n) * 3, np.ones(n), random.random((n, width - 2))])
    truth = (random.random(n) < 1 / (1 + np.exp(-inputs @ random.normal(size=width)))).astype(float)
    truth[:2] = 0, 1
    weight = random.random(n) + 0.1
    found = sentence_layer._maximum(inputs, truth, weight)

    spread = np.array([0.5, 5.0, *np.ones(width - 2)])
    start = np.append(1.0, np.zeros(width - 1))
    sign = 2 * truth - 1

    def loss(values: FloatArray) -> float:
        far = (values - start) / spread
        return float(weight @ np.logaddexp(0, -sign * (inputs @ values)) + far @ far / 2)

    bounds = [(0.05, None), (None, None), (0, None), *[(None, 0)] * (width - 3)]
    known = optimize.minimize(loss, start, method="L-BFGS-B", bounds=bounds, tol=1e-12)
    assert loss(found) <= known.fun + 1e-7
    assert found == pytest.approx(known.x, abs=2e-3)
    assert found[0] >= 0.05 and found[2] >= 0 and (found[3:] <= 0).all()
