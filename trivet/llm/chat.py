"""A request to a chat model, and its answer or the reason why there is none, as plain data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

_BYTES_PER_TOKEN = 4  # of English text, for most tokenizers
_MESSAGE_TOKENS = 8  # role and separators


@dataclass(frozen=True)
class ChatRequest:
    """A request for one answer.

    Attributes:
        messages: Messages with ``role`` and ``content``.
        max_tokens: Most tokens of the answer.
        temperature: Temperature of sampling, >= 0.
        sample: Number of the sample, from 0. Only tells equal requests apart, so that each has an
            answer of its own in the cache.
        schema: JSON schema of the answer. An endpoint without structured output ignores it, so the
            prompt must describe the form too.
        top_logprobs: Number of alternatives whose log probabilities are asked for with those of
            each token of the answer; 0 asks for none.
        extra: Further parameters of the body that an endpoint knows, such as ``documents``.
    """

    messages: Sequence[Mapping[str, str]]
    max_tokens: int
    temperature: float = 0.0
    sample: int = 0
    schema: Mapping[str, Any] | None = None
    top_logprobs: int = 0
    extra: Mapping[str, Any] | None = None

    def key(self, model: str, base_url: str) -> str:
        """Return the digest under which a cache keeps the answer of a model at an endpoint."""
        content = json.dumps([base_url, model, asdict(self)], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def estimate_input_tokens(self) -> int:
        """Return about how many tokens the model reads, from the bytes of the texts."""
        texts = [message["content"] for message in self.messages]
        texts += [json.dumps(each) for each in (self.schema, self.extra) if each is not None]
        size = sum(len(text.encode("utf-8", "replace")) for text in texts)
        return size // _BYTES_PER_TOKEN + _MESSAGE_TOKENS * len(self.messages)


@dataclass(frozen=True)
class TokenLogprob:
    """A token of an answer: its log probability, and those of its alternatives by text."""

    token: str
    logprob: float
    top: Mapping[str, float]


@dataclass(frozen=True)
class ChatAnswer:
    """An answer of a model.

    Attributes:
        text: Text of the answer, or of the refusal.
        model: Name by which the endpoint calls the model.
        time: Time of the call, in UTC and ISO 8601.
        input_tokens: Tokens read, as the endpoint counts them, or estimated.
        output_tokens: Tokens written, likewise.
        seconds: Duration of the call, with its retries.
        refused: Whether the model or a filter refused to answer.
        is_cut: Whether the answer ends at ``max_tokens``.
        logprobs: Log probabilities of the tokens; empty if none were asked for or given.
        cached: Whether the answer is from the cache.
    """

    text: str
    model: str
    time: str
    input_tokens: int
    output_tokens: int
    seconds: float
    refused: bool = False
    is_cut: bool = False
    logprobs: tuple[TokenLogprob, ...] = ()
    cached: bool = False

    def to_json(self) -> str:
        """Return the answer as a cache keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return an answer that a cache kept."""
        record = json.loads(text)
        logprobs = tuple(TokenLogprob(**each) for each in record.pop("logprobs"))
        return cls(**record | {"logprobs": logprobs, "cached": True})


class LlmError(RuntimeError):
    """A call gave no answer. The message never holds a key.

    Attributes:
        code: Short, stable name of the reason: ``unauthorized``, ``unknown_model``,
            ``rate_limited``, ``unreachable``, ``timeout``, ``server_error``, ``bad_request``,
            ``too_long``, ``invalid_answer`` or ``over_budget``.
        fatal: Whether further calls would fail for the same reason, so that a run should stop.
    """

    def __init__(self, message: str, code: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.fatal = fatal


class BudgetError(LlmError):
    """The next call could cost more than what is left of the budget."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "over_budget", fatal=True)
