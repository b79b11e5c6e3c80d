"""Minima of smooth functions of few numbers: BFGS, in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trivet.measures.curves import FloatArray

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
"""Values [P] -> value of the function, and its gradient [P]."""

_MOST_STEPS, _MOST_TRIES = 200, 40
_LEAST_GRADIENT = 1e-8
_LEAST_GAIN = 1e-13
_DECREASE, _CURVATURE = 1e-4, 0.9  # of the weak Wolfe conditions


def minimize(objective: Objective, start: FloatArray) -> FloatArray:
    """Return a local minimum, or where no step leads further down.

    BFGS with a bisection for the weak Wolfe conditions (Lewis and Overton 2013, "Nonsmooth
    optimization via quasi-Newton methods"), which a minimum over parts, with its edges, needs.
    """
    x, inverse = start.astype(np.float64), np.eye(len(start))
    value, gradient = objective(x)
    scaled = False
    for _ in range(_MOST_STEPS):
        if np.abs(gradient).max(initial=0.0) < _LEAST_GRADIENT:
            break
        direction = -inverse @ gradient
        if direction @ gradient >= 0:
            inverse, direction = np.eye(len(start)), -gradient
        first = 1.0 if scaled else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        step, new_value, new_gradient = _line_search(
            objective, x, direction, value, float(gradient @ direction), first
        )
        if new_value >= value:
            break
        moved, bent = step * direction, new_gradient - gradient
        if (curvature := float(moved @ bent)) > 0:
            if not scaled:
                inverse, scaled = np.eye(len(start)) * curvature / float(bent @ bent), True
            left = np.eye(len(start)) - np.outer(moved, bent) / curvature
            inverse = left @ inverse @ left.T + np.outer(moved, moved) / curvature
        gain = value - new_value
        x, value, gradient = x + moved, new_value, new_gradient
        if gain < _LEAST_GAIN * max(1.0, abs(value)):
            break
    return x


def _line_search(
    objective: Objective,
    x: FloatArray,
    direction: FloatArray,
    value: float,
    slope: float,
    step: float,
) -> tuple[float, float, FloatArray]:
    """Return a step, and value and gradient there."""
    low, high = 0.0, np.inf
    for _ in range(_MOST_TRIES):
        found, gradient = objective(x + step * direction)
        if not found <= value + _DECREASE * step * slope:  # also where it is not a number
            high = step
        elif gradient @ direction < _CURVATURE * slope:
            low = step
        else:
            break
        step = 2 * low if high == np.inf else (low + high) / 2
    return step, found, gradient
