"""Recipes of responses: drawn by number, in the shares of the mixture."""

from __future__ import annotations

from collections import Counter

import pytest

from trivet.annotation.generate import ALTERED, MIX, Mixture
from trivet.errors import ConfigError

ROWS = 2000


def test_equal_numbers_draw_equal_recipes_and_others_others() -> None:
    one, other = Mixture(["a", "b"]), Mixture(["a", "b"], seed=1)
    first = [one.draw(row, 0, 4) for row in range(50)]
    assert first == [one.draw(row, 0, 4) for row in range(50)]
    assert first != [other.draw(row, 0, 4) for row in range(50)]
    assert first != [one.draw(row, 1, 4) for row in range(50)]


def test_shares_are_those_of_the_mixture() -> None:
    mixture = Mixture(["a", "b"], temperatures=[0.5, 1.0])
    drawn = [mixture.draw(row, 0, 4) for row in range(ROWS)]
    prompts = Counter(recipe.prompt for recipe in drawn)
    for name, share in MIX.items():
        assert prompts[name] / ROWS == pytest.approx(share, abs=0.04)
    sampled = Counter((recipe.model, recipe.temperature) for recipe in drawn)
    assert len(sampled) == 4
    assert min(sampled.values()) / ROWS == pytest.approx(0.25, abs=0.04)
    dropped = sum("dropped" in recipe.contexts for recipe in drawn)
    assert dropped / ROWS == pytest.approx(ALTERED, abs=0.04)


def test_the_name_of_a_change_says_what_happened_to_the_contexts() -> None:
    drawn = [Mixture(["a"]).draw(row, 0, 4) for row in range(500)]
    for recipe in drawn:
        assert set(recipe.kept) <= set(range(4))
        assert len(set(recipe.kept)) == len(recipe.kept) >= 1
        assert ("dropped" in recipe.contexts) == (len(recipe.kept) < 4)
        if recipe.contexts in ("all", "dropped"):
            assert list(recipe.kept) == sorted(recipe.kept)
    names = {"all", "dropped", "shuffled", "dropped, shuffled"}
    assert {recipe.contexts for recipe in drawn} == names


def test_a_single_context_is_always_kept() -> None:
    assert {Mixture(["a"]).draw(row, 0, 1).kept for row in range(50)} == {(0,)}


@pytest.mark.parametrize("temperature", [-0.1, 2.5, float("nan")])
def test_a_temperature_out_of_range_is_refused(temperature: float) -> None:
    with pytest.raises(ConfigError, match="must be from 0 to 2"):
        Mixture(["a"], [temperature])
