"""The job of labelling a log: by one annotator, or by two whose agreement is the weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from trivet.annotation.answer import (
    Answer,
    KeyedExample,
    Pairs,
    agreement,
    pair_decisions,
    read_answer,
    weight,
)
from trivet.annotation.asking import OTHER_TEMPERATURE, Prompt, Provenance, ask_checked
from trivet.annotation.jobs import Made, Row
from trivet.errors import ExampleError
from trivet.labelled.grouping import digest
from trivet.labelled.labelled_jsonl import to_row
from trivet.llm.chat import ChatRequest
from trivet.llm.client import ChatClient
from trivet.logs.column_mapping import LogRow
from trivet.records import LabelledExample, RagExample

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

    def annotate(self, keyed: KeyedExample) -> tuple[Answer, Provenance]:
        """Return an answer that passes all checks, and how it came about.

        Raises:
            RejectedError: The model refused, or its answers stay inconsistent.
            LlmError: There was no answer.
        """
        answer, provenance = ask_checked(
            *(self.client, self.request(keyed), self.prompt.version),
            lambda text: read_answer(text, keyed),
        )
        provenance.answer = answer.model_dump()
        return answer, provenance


REVIEW = "review"
"""Kind of the rows on whose support two annotators disagree."""


def rows_to_label(rows: Iterable[LogRow]) -> Iterator[tuple[Row, LogRow]]:
    """Yield the rows of a log, each with its place and texts."""
    for row in rows:
        place: Row = {"row": row.number, "id": row.example.id}
        if isinstance(row.example, RagExample):
            texts = ("question", "contexts", "response")
            place |= {name: getattr(row.example, name) for name in texts}
        yield place | _metadata(row), row


class Labeller:
    """The job of labelling the rows of a log."""

    def __init__(self, annotators: Sequence[Annotator], source: str) -> None:
        """Take one annotator, or two to compare, and the source of the labelled rows."""
        self._annotators = annotators
        self._source = source

    def plan(self, item: LogRow) -> list[tuple[ChatClient, ChatRequest]]:
        """Return the first request to each annotator; refuses a row without texts."""
        keyed = _keyed(item)
        return [(each.client, each.request(keyed)) for each in self._annotators]

    def make(self, item: LogRow) -> Made:
        """Return the row with the labels of the first annotator."""
        keyed = _keyed(item)
        # One after the other: a row without one answer needs no other.
        answers = [each.annotate(keyed) for each in self._annotators]
        (answer, provenance), *others = answers
        annotation: dict[str, Any] = asdict(provenance)
        pairs: Pairs = {}
        for other, its_provenance in others:
            pairs = pair_decisions(answer, other, keyed)
            annotation |= {"agreement": agreement(pairs), "other": asdict(its_provenance)}
        group, generator = item.metadata.get("group"), item.metadata.get("generator")
        labelled = LabelledExample(
            example=keyed.example,
            labels=answer.labels(keyed),
            source=self._source,
            group=digest(*keyed.example.contexts) if group is None else str(group),
            generator=None if generator is None else str(generator),
            weight=weight(pairs) if pairs else 1.0,
        )
        row = to_row(labelled) | _metadata(item) | {"annotation": annotation}
        disputed = any(one != other for one, other in pairs.get("support", ()))
        file, kind = (REVIEW, "to review") if disputed else ("", "labelled")
        return Made([row], [kind], file, pairs)


def _keyed(row: LogRow) -> KeyedExample:
    """Return a row with its sentences; ``ExampleError`` if there is nothing to label."""
    example = row.example
    if not isinstance(example, RagExample):
        raise ExampleError(example.message, example.code)
    keyed = KeyedExample.of(example)
    if not keyed.contexts:
        raise ExampleError(f"{row.place}: no context holds any text", "empty_contexts")
    if not keyed.response:
        raise ExampleError(f"{row.place}: the response holds no text", "empty_response")
    return keyed


def _metadata(row: LogRow) -> Row:
    return {"metadata": dict(row.metadata)} if row.metadata else {}
