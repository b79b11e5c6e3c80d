"""How many positions are computed for each that holds a token: little, once windows are sorted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trivet.backends.openvino import OpenVinoBackend
from trivet.evaluation.packing import BatchLimits, pack

WINDOW = 512
# The most that may be computed for a useful token.
MOST = 1.05


def sample_lengths() -> list[int]:
    """Windows of 48 requests: contexts log-normal around 800 tokens, about 170 of all else."""
    random = np.random.default_rng(0)
    lengths = []
    for _ in range(48):
        context = int(random.lognormal(math.log(800) - 0.32, 0.8))
        others = int(np.clip(random.normal(170, 60), 40, 350))
        while context > 0:
            # A slice ends with a sentence, so a full window is seldom full to its last position.
            shown = min(context, WINDOW - others - int(random.integers(0, 30)))
            lengths.append(others + shown)
            context -= shown
    return lengths


def share(lengths: list[int], calls: list[list[int]], step: int) -> float:
    """Positions computed for each useful one."""
    longest = [max(lengths[number] for number in call) for call in calls]
    computed = sum(
        len(call) * math.ceil(most / step) * step for call, most in zip(calls, longest, strict=True)
    )
    return computed / sum(lengths)


@pytest.mark.parametrize("step", [1, OpenVinoBackend.step])
def test_sorted_windows_waste_little(step: int) -> None:
    lengths = sample_lengths()
    assert len(lengths) > 100
    assert share(lengths, pack(lengths, BatchLimits(step=step)), step) <= MOST


def test_windows_in_order_of_arrival_would_waste_more() -> None:
    lengths = sample_lengths()
    pairs = [list(range(len(lengths)))[i : i + 2] for i in range(0, len(lengths), 2)]
    assert share(lengths, pairs, 1) > MOST
    assert share(lengths, pairs, WINDOW) > MOST
