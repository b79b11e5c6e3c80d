"""Recipes of responses, drawn so that some of them are wrong by themselves.

A judge needs natural hallucinations. Prompts differ widely in how many they give: published rates
over four retrievals and two models (RAGBench, arXiv 2407.11005, appendix 7.6) are .79 to .95
without contexts, .07 to .29 with a short instruction, and .02 to .13 with a long one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.errors import ConfigError

MIX: Mapping[str, float] = {"no-context": 0.25, "short": 0.5, "long": 0.125, "reasoning": 0.125}
"""Prompts by name, and the share of the responses that each one is used for."""
ALTERED = 0.25
"""Share of the responses for which some contexts are left out, and share with reordered ones."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Recipe of one response.

    Attributes:
        prompt: Name of the prompt, a key of ``MIX``.
        model: Name of the model.
        temperature: Temperature of sampling.
        kept: Positions of the contexts that the row keeps, in their new order.
        contexts: Change of the contexts: ``all``, ``dropped``, ``shuffled`` or
            ``dropped, shuffled``.
    """

    prompt: str
    model: str
    temperature: float
    kept: tuple[int, ...]
    contexts: str


@dataclass(frozen=True)
class Mixture:
    """Models and temperatures, each used equally often, and the seed of all draws."""

    models: Sequence[str]
    temperatures: Sequence[float] = (1.0,)
    seed: int = 0

    def __post_init__(self) -> None:
        for value in self.temperatures:
            if not 0.0 <= value <= 2.0:
                raise ConfigError(f"temperature {value:g} must be from 0 to 2")

    def draw(self, row: int, sample: int, contexts: int) -> Recipe:
        """Draw the recipe of a response; the same numbers always give the same one.

        Args:
            row: Number of the row.
            sample: Number of the response to its question, from 0.
            contexts: Number of the row's contexts.
        """
        random = np.random.default_rng((self.seed, row, sample))
        kept, changes = list(range(contexts)), []
        if contexts > 1 and random.random() < ALTERED:
            count = int(random.integers(1, contexts))
            kept = sorted(random.permutation(contexts)[:count].tolist())
            changes.append("dropped")
        if len(kept) > 1 and random.random() < ALTERED:
            kept = random.permutation(kept).tolist()
            changes.append("shuffled")
        return Recipe(
            prompt=str(random.choice(list(MIX), p=list(MIX.values()))),
            model=str(random.choice(list(self.models))),
            temperature=float(random.choice(list(self.temperatures))),
            kept=tuple(kept),
            contexts=", ".join(changes) or "all",
        )
