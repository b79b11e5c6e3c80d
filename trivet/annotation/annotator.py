"""One annotator: a model, a prompt, and answers that are sent back until they pass all checks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from trivet.annotation.answer import Answer, AnswerError, read_answer
from trivet.annotation.prompt import Prompt
from trivet.annotation.sentence_keys import KeyedExample
from trivet.llm.chat import ChatAnswer, ChatRequest
from trivet.llm.client import ChatClient
from trivet.records import ExampleError

SENT_BACK = 3
"""How often an answer that fails a check is sent back."""

_OTHER_TEMPERATURE = 0.7  # of the second sample of one model, and if a fault is repeated
_SHOWN_ANSWER = 20_000  # characters of an answer that is sent back
_TOKENS, _PER_SENTENCE, _PER_KEY = 2000, 150, 8  # most tokens of an answer


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
    """An annotator gave no answer that can be used; ``provenance`` tells of its calls."""

    def __init__(self, message: str, code: str, provenance: Provenance) -> None:
        super().__init__(message, code)
        self.provenance = provenance


@dataclass(frozen=True)
class Annotator:
    """A model with a prompt.

    Attributes:
        client: Model.
        prompt: Prompt.
        sample: Number of this annotator among those with the same model, from 0.
    """

    client: ChatClient
    prompt: Prompt
    sample: int = 0
    schema: dict[str, Any] = field(default_factory=Answer.model_json_schema)

    def request(self, keyed: KeyedExample) -> ChatRequest:
        """Return the first request for an example."""
        sentences = _PER_SENTENCE * len(keyed.response) + _PER_KEY * len(keyed.contexts)
        return ChatRequest(
            messages=self.prompt.messages(keyed.values()),
            max_tokens=_TOKENS + sentences,
            temperature=_OTHER_TEMPERATURE if self.sample else 0.0,
            sample=self.sample,
            schema=self.schema,
        )

    async def annotate(self, keyed: KeyedExample) -> tuple[Answer, Provenance]:
        """Return an answer that passes all checks, and how it came about.

        Raises:
            RejectedError: The model refused, or its answers stay inconsistent.
            LlmError: There was no answer.
        """
        request = self.request(keyed)
        first = list(request.messages)
        provenance = Provenance(self.client.model, self.prompt.version)
        fault = ""
        for attempt in range(1 + SENT_BACK):
            given = await self.client.ask(request)
            provenance.add(given)
            if given.refused:
                raise RejectedError(f"the model refused: {given.text}", "refused", provenance)
            try:
                answer = read_answer(given.text, keyed)
                provenance.answer = answer.model_dump()
                return answer, provenance
            except AnswerError as error:
                fault = str(error)
                if given.is_cut:
                    fault = f"it ends after {given.output_tokens} tokens: explain in fewer words"
            back = f"Your answer cannot be used: {fault}. Answer again, with the whole JSON object."
            messages = [
                *first,
                {"role": "assistant", "content": given.text[:_SHOWN_ANSWER]},
                {"role": "user", "content": back},
            ]
            request = replace(
                request,
                messages=messages,
                sample=request.sample + 2,
                temperature=_OTHER_TEMPERATURE if attempt else request.temperature,
            )
        raise RejectedError(
            f"still inconsistent after {1 + SENT_BACK} answers: {fault}", "inconsistent", provenance
        )
