"""One annotator: a model and a prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trivet.annotation.answer import Answer, read_answer
from trivet.annotation.asking import OTHER_TEMPERATURE, Provenance, ask_checked
from trivet.annotation.prompt import Prompt
from trivet.annotation.sentence_keys import KeyedExample
from trivet.llm.chat import ChatRequest
from trivet.llm.client import ChatClient

_TOKENS, _PER_SENTENCE, _PER_KEY = 2000, 150, 8  # most tokens of an answer


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
            temperature=OTHER_TEMPERATURE if self.sample else 0.0,
            sample=self.sample,
            schema=self.schema,
        )

    async def annotate(self, keyed: KeyedExample) -> tuple[Answer, Provenance]:
        """Return an answer that passes all checks, and how it came about.

        Raises:
            RejectedError: The model refused, or its answers stay inconsistent.
            LlmError: There was no answer.
        """
        answer, provenance = await ask_checked(
            *(self.client, self.request(keyed), self.prompt.version),
            lambda text: read_answer(text, keyed),
        )
        provenance.answer = answer.model_dump()
        return answer, provenance
