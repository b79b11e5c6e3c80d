"""A request to a chat model, its answer or the reason why there is none, and what it costs."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from trivet.errors import ConfigError

_BYTES_PER_TOKEN = 4  # of English text, for most tokenizers
_MESSAGE_TOKENS = 8  # role and separators


@dataclass(frozen=True)
class ChatRequest:
    """A request for one answer."""

    messages: Sequence[Mapping[str, str]]  # with ``role`` and ``content``
    max_tokens: int  # of the answer
    temperature: float = 0.0
    sample: int = 0  # only tells equal requests apart
    # JSON schema of the answer. An endpoint without structured output ignores it, so the prompt
    # must describe the form too.
    schema: Mapping[str, Any] | None = None
    top_logprobs: int = 0  # alternatives of each token of the answer; 0 asks for no probabilities

    def estimate_input_tokens(self) -> int:
        """Return about how many tokens the model reads, from the bytes of the texts."""
        texts = [message["content"] for message in self.messages]
        texts += [json.dumps(self.schema)] if self.schema is not None else []
        size = sum(len(text.encode("utf-8", "replace")) for text in texts)
        return size // _BYTES_PER_TOKEN + _MESSAGE_TOKENS * len(self.messages)


@dataclass(frozen=True)
class TokenLogprob:
    """A token of an answer and its alternatives by text, with log probabilities."""

    token: str
    logprob: float
    top: Mapping[str, float]


@dataclass(frozen=True)
class ChatAnswer:
    """An answer of a model; tokens are those that the endpoint counts, or estimated."""

    text: str  # of the answer, or of the refusal
    model: str  # as the endpoint calls it
    time: str  # of the answer, in UTC and ISO 8601
    input_tokens: int
    output_tokens: int
    refused: bool = False  # by the model or a filter
    is_cut: bool = False  # at ``max_tokens``
    logprobs: tuple[TokenLogprob, ...] = ()  # of the tokens, if they were asked for and given


class LlmError(RuntimeError):
    """A call gave no answer. The message never holds a key.

    ``code`` is a short, stable name of the reason, and ``fatal`` tells whether further calls would
    fail for the same one, so that a run should stop.
    """

    def __init__(self, message: str, code: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.fatal = fatal


class BudgetError(LlmError):
    """The next call could cost more than what is left of the budget."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "over_budget", fatal=True)


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
        if "," not in text or not all(0 <= value < math.inf for value in vars(price).values()):
            raise ConfigError(
                f"price {text!r} must be IN,OUT in dollars per million tokens, such as 0.15,0.6"
            )
        return price

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        """Return the dollars that these tokens cost."""
        return (self.input * input_tokens + self.output * output_tokens) / 1e6


class Budget:
    """A limit in dollars (``None`` is none) over all clients and threads that share it."""

    def __init__(self, max_dollars: float | None = None, spent: float = 0.0) -> None:
        self.max_dollars = max_dollars
        self.spent = spent
        self._held = 0.0
        self._open = 0
        self._changed = threading.Condition()

    def pay(self, dollars: float) -> None:
        """Add the cost of a call."""
        with self._changed:
            self.spent += dollars

    @contextlib.contextmanager
    def reserve(self, dollars: float) -> Iterator[None]:
        """Hold what a call can cost; it waits for others that are open, or is refused."""
        with self._changed:
            self._changed.wait_for(lambda: self._fits(dollars) or not self._open)
            if not self._fits(dollars):
                raise BudgetError(
                    f"${self.spent:.4f} of at most ${self.max_dollars:.4f} are spent, and the next "
                    f"call may cost ${dollars:.4f}; raise --max-dollars to go on"
                )
            self._held += dollars
            self._open += 1
        try:
            yield
        finally:
            with self._changed:
                self._held -= dollars
                self._open -= 1
                self._changed.notify_all()

    def _fits(self, dollars: float) -> bool:
        return self.max_dollars is None or self.spent + self._held + dollars <= self.max_dollars
