"""Tests of Cohen's kappa: its fixed points, and where it is not defined."""

from __future__ import annotations

import pytest

from trivet.annotation.answer import cohen_kappa


@pytest.mark.parametrize(
    ("counts", "kappa"),
    [
        ({(True, True): 3, (False, False): 5}, 1.0),
        ({(True, False): 4, (False, True): 4}, -1.0),
        ({(True, True): 20, (True, False): 5, (False, True): 10, (False, False): 15}, 0.4),
    ],
)
def test_kappa_of_known_tables(counts: dict[tuple[bool, bool], int], kappa: float) -> None:
    assert cohen_kappa(counts) == pytest.approx(kappa)


@pytest.mark.parametrize("n", [3, 7, 11])
def test_agreement_by_chance_is_exactly_zero(n: int) -> None:
    kappa = cohen_kappa({(True, False): n, (False, False): 2 * n})
    assert str(kappa) == "0.0"


def test_kappa_is_not_defined_where_both_always_say_the_same() -> None:
    assert cohen_kappa({(True, True): 9}) is None
