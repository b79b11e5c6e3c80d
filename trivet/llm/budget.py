"""Money: prices, what calls cost, and a limit that no call may exceed."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Self

from trivet.errors import ConfigError
from trivet.llm.chat import BudgetError


@dataclass(frozen=True)
class Price:
    """Price of a model, in dollars per million tokens read and written."""

    input: float = 0.0
    output: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``in,out``, such as ``0.15,0.6``; other texts raise ``ConfigError``."""
        try:
            price = cls(*map(float, text.split(",", 1)))
        except ValueError:
            price = cls(math.nan)
        if "," not in text or not all(0 <= each < math.inf for each in vars(price).values()):
            raise ConfigError(
                f"price {text!r} must be IN,OUT in dollars per million tokens, such as 0.15,0.6"
            )
        return price

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        """Return the dollars that these tokens cost."""
        return (self.input * input_tokens + self.output * output_tokens) / 1e6


@dataclass
class Usage:
    """Calls of a run: paid for now, answered from the cache, and tokens and dollars of the paid."""

    calls: int = 0
    cached: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0

    def add(self, other: Usage) -> None:
        """Add other calls to these."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        tokens = f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out"
        cost = f", ${self.dollars:.4f}" if self.dollars else ""
        return f"{self.calls} calls ({self.cached} more cached), {tokens}{cost}"


class Budget:
    """A limit in dollars over all clients that share it.

    Attributes:
        max_dollars: The limit; ``None`` means none.
        spent: Dollars spent so far, with those of earlier runs if they are given.
    """

    def __init__(self, max_dollars: float | None = None, spent: float = 0.0) -> None:
        self.max_dollars = max_dollars
        self.spent = spent
        self._held = 0.0
        self._open = 0
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def reserve(self, most: float) -> AsyncIterator[None]:
        """Hold the most that a call can cost until it is done and its cost is in ``spent``.

        A call that does not fit waits until other calls are done.

        Raises:
            BudgetError: No other call is open, and the call does not fit.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._fits(most) or not self._open)
            if not self._fits(most):
                raise BudgetError(
                    f"${self.spent:.4f} of at most ${self.max_dollars:.4f} are spent, and the next "
                    f"call may cost ${most:.4f}; raise --max-dollars to go on"
                )
            self._held += most
            self._open += 1
        try:
            yield
        finally:
            self._held -= most
            self._open -= 1
            async with self._changed:
                self._changed.notify_all()

    def _fits(self, most: float) -> bool:
        return self.max_dollars is None or self.spent + self._held + most <= self.max_dollars
