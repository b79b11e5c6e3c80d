"""Requests to a model that are sent again until the answer passes its checks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from trivet.errors import ExampleError, fault_words
from trivet.llm.chat import ChatAnswer, ChatRequest
from trivet.llm.client import ChatClient
from trivet.llm.errors import LlmError

_Row = TypeVar("_Row")
_Result = TypeVar("_Result")

SENT_BACK = 3
"""How often an answer that fails a check is sent back."""
OTHER_TEMPERATURE = 0.7
"""Temperature of another sample of the same request, and at least after a repeated fault."""
_SHOWN_ANSWER, _SHOWN_FAULTS = 20_000, 8  # of an answer that is sent back: characters, faults


@dataclass
class Provenance:
    """The calls for one row: model as it names itself, time of the last, number, and tokens."""

    model: str
    prompt: str
    time: str = ""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    answer: dict[str, Any] | str | None = None

    def add(self, answer: ChatAnswer) -> None:
        """Count a call; its text is kept until an answer passes."""
        self.model, self.time, self.answer = answer.model, answer.time, answer.text
        self.calls += 1
        self.input_tokens += answer.input_tokens
        self.output_tokens += answer.output_tokens


class RejectedError(ExampleError):
    """No answer of a model can be used; ``provenance`` tells of its calls."""

    def __init__(self, message: str, code: str, provenance: Provenance) -> None:
        super().__init__(message, code)
        self.provenance = provenance


async def ask_checked(
    client: ChatClient, request: ChatRequest, prompt: str, read: Callable[[str], _Result]
) -> tuple[_Result, Provenance]:
    """Ask until ``read`` accepts the answer, and return what it made of it.

    Args:
        client: Model.
        request: First request; those that follow contain the refused answer and its faults.
        prompt: Version of the prompt.
        read: Function that raises a ``ValueError`` whose message tells the model what to mend.

    Raises:
        RejectedError: The model refused, or no answer was accepted.
        LlmError: There was no answer.
    """
    first, fault = list(request.messages), ""
    provenance = Provenance(client.model, prompt)
    for attempt in range(1 + SENT_BACK):
        given = await client.ask(request)
        provenance.add(given)
        if given.refused:
            raise RejectedError(f"the model refused: {given.text}", "refused", provenance)
        try:
            if given.is_cut:
                raise ValueError(f"it ends after {given.output_tokens} tokens: be shorter")
            result = read(given.text)
        except ValidationError as error:
            fault = fault_words(error, _SHOWN_FAULTS)
        except ValueError as error:
            fault = str(error)
        else:
            provenance.answer = None  # the caller keeps what was read
            return result, provenance
        back = f"Your answer cannot be used: {fault}. Answer again, with the whole answer."
        messages = [
            *first,
            {"role": "assistant", "content": given.text[:_SHOWN_ANSWER]},
            {"role": "user", "content": back},
        ]
        request = replace(
            request,
            messages=messages,
            sample=request.sample + 2,
            temperature=max(request.temperature, OTHER_TEMPERATURE * bool(attempt)),
        )
    raise RejectedError(
        f"still inconsistent after {1 + SENT_BACK} answers: {fault}", "inconsistent", provenance
    )


async def result_or_error(
    work: Callable[[_Row], Awaitable[_Result]], row: _Row
) -> _Result | ExampleError:
    """Return the result of work on a row, or the error that concerns that row alone.

    Raises:
        LlmError: Further calls would fail too, or the budget is used up.
    """
    try:
        return await work(row)
    except ExampleError as error:
        return error
    except LlmError as error:
        if error.fatal:
            raise
        return ExampleError(str(error), error.code)
