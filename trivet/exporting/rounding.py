"""Round weights for typical inputs, so that products with them change less: GPTQ, arXiv 2210.17323.

Rounding each weight to the nearest integer changes products most where inputs vary together. GPTQ
rounds the weights of one input after another, and the weights of those that come later make up for
the error. It needs nothing of the inputs but their second moments. Unlike in the paper, these are
measured once, in fp32, and the largest weight of each output keeps its nearest integer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Moments = Mapping[str, npt.NDArray[np.float64]]
"""For each tensor of X features the mean of x x^T over tokens x, [X, X], by its name."""

# Share of the mean square of all inputs that is added to each one's, as in the paper.
_DAMPING = 0.01
# Inputs whose errors reach the inputs after them in one product; a matter of speed alone.
_BLOCK = 128


def round_for_inputs(
    matrix: npt.NDArray[np.float32],
    scale: npt.NDArray[np.float32],
    moments: npt.NDArray[np.float64],
    largest: int,
) -> npt.NDArray[np.int8]:
    """Round a matrix to multiples of ``scale`` so that products with typical inputs change little.

    The largest weight of each column keeps its nearest integer, so the integers times ``scale``
    round to the same integers again.

    Args:
        matrix: Weights, [X, Y]; X inputs.
        scale: Size of an integer step in each column, [1, Y]; 0 for a column of zeros.
        moments: Second moments of the inputs, [X, X].
        largest: Limit of the integers on both sides of 0.
    """
    steps = (matrix / np.where(scale > 0, scale, 1)).astype(np.float64)
    # Inputs of the largest squares first, as the authors' code offers: the others make up for them.
    order = np.argsort(-np.diag(moments), kind="stable")
    left = steps[order]
    peaks = np.abs(left) == np.abs(left).max(axis=0)
    nearest = np.rint(left)
    damped = moments[np.ix_(order, order)] + np.eye(len(left)) * _damping(moments)
    # The upper Cholesky factor of the inverse; row i says how inputs after i make up for i.
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    rounded = np.empty_like(left)
    for first in range(0, len(left), _BLOCK):
        last = min(first + _BLOCK, len(left))
        errors = np.empty_like(left[first:last])
        for row in range(first, last):
            adjusted = np.clip(np.rint(left[row]), -largest, largest)
            rounded[row] = np.where(peaks[row], nearest[row], adjusted)
            error = (left[row] - rounded[row]) / upper[row, row]
            left[row + 1 : last] -= upper[row, row + 1 : last, None] * error
            errors[row - first] = error
        left[last:] -= upper[first:last, last:].T @ errors
    found = np.empty_like(rounded)
    found[order] = rounded
    return found.astype(np.int8)


def _damping(moments: npt.NDArray[np.float64]) -> float:
    """Return what is added to each input's mean square, so that the moments have an inverse."""
    return float(_DAMPING * np.diag(moments).mean()) or 1.0
