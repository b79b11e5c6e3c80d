"""What clients send: typed, strict, read from raw bytes, refused by the name of the field.

Field names are those of a log (`trivet.data.logs.column_mapping`), so that rows of other tools
can be posted as they are. No number is NaN, no text stands for a number, no key is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias

from pydantic import AliasChoices, Discriminator, FailFast, Field, Tag, TypeAdapter

from trivet.data.logs.column_mapping import FIELD_NAMES
from trivet.data.logs.context_values import CONTEXT_ID_NAMES, CONTEXT_TEXT_NAMES
from trivet.records import RagExample
from trivet.serve.http.parsing import Body, named

# Tags of unions stand in a fault's place; in parentheses they cannot be taken for fields.
_TEXT, _OBJECT, _ONE, _MANY = "(text)", "(object)", "(one)", "(many)"
_LONGEST_ID = 1000  # characters


class ContextObject(Body):
    """A passage with its name."""

    text: str = named(CONTEXT_TEXT_NAMES, "The passage.")
    id: str | None = Field(
        default=None,
        validation_alias=AliasChoices(*(name for name in CONTEXT_ID_NAMES if name != "title")),
        max_length=_LONGEST_ID,
        description="The caller's name for it; comes back in context_ids.",
    )
    title: str | None = Field(
        default=None, max_length=_LONGEST_ID, description="Stands for the id where there is none."
    )


def _kind(value: Any) -> str | None:
    if isinstance(value, str):
        return _TEXT
    return _OBJECT if isinstance(value, dict | ContextObject) else None


Context: TypeAlias = Annotated[
    Annotated[str, Tag(_TEXT)] | Annotated[ContextObject, Tag(_OBJECT)],
    Discriminator(
        _kind,
        custom_error_type="context_type",
        custom_error_message="must be a string, or an object with its text",
    ),
]
# Fails fast: a million wrong members would be a million faults.
Contexts: TypeAlias = Annotated[list[Context], FailFast()]
TimeoutMs: TypeAlias = Annotated[
    float | None,
    Field(gt=0, description="Milliseconds until the answer is of no use any more."),
]
AllowEmpty: TypeAlias = Annotated[
    bool, Field(description="Judge a response without contexts against nothing.")
]
ExampleId: TypeAlias = Annotated[
    str | None,
    Field(max_length=_LONGEST_ID, description="The caller's name; comes back in the verdict."),
]

_QUESTION = named(FIELD_NAMES["question"], "What was asked; may be empty.")
_CONTEXTS = named(FIELD_NAMES["contexts"], "The retrieved passages: strings, or objects.")
_RESPONSE = named(FIELD_NAMES["response"], "The generated answer; empty asks for relevance alone.")


class ExampleBody(Body):
    """A question, the passages retrieved for it and the answer."""

    question: str = _QUESTION
    contexts: Contexts = _CONTEXTS
    response: str = _RESPONSE
    id: ExampleId = None

    def example(self) -> RagExample:
        """Return the example as the evaluator takes it."""
        return RagExample(self.question, texts(self.contexts), self.response, self.id)


class EvaluateOne(ExampleBody):
    """One example to judge."""

    timeout_ms: TimeoutMs = None
    allow_empty_contexts: AllowEmpty = False


class EvaluateMany(Body):
    """Several examples to judge; one that cannot be judged fails in its place."""

    examples: Annotated[list[ExampleBody], FailFast()] = Field(description="What to judge.")
    timeout_ms: TimeoutMs = None
    allow_empty_contexts: AllowEmpty = False


class RelevanceBody(Body):
    """A question and passages, before an answer is generated."""

    question: str = _QUESTION
    contexts: Contexts = _CONTEXTS
    id: ExampleId = None
    timeout_ms: TimeoutMs = None


class LettuceDetectBody(Body):
    """What LettuceDetect's server takes."""

    contexts: Contexts = Field(description="The retrieved passages.")
    question: str = Field(description="What was asked; may be empty.")
    answer: str = Field(description="The generated answer.")
    timeout_ms: TimeoutMs = None


def _one_or_many(value: Any) -> str:
    many = isinstance(value, EvaluateMany) or (isinstance(value, dict) and "examples" in value)
    return _MANY if many else _ONE


EvaluateBody: TypeAlias = Annotated[
    Annotated[EvaluateOne, Tag(_ONE)] | Annotated[EvaluateMany, Tag(_MANY)],
    Discriminator(_one_or_many),
]

EVALUATE: TypeAdapter[EvaluateOne | EvaluateMany] = TypeAdapter(EvaluateBody)


def texts(contexts: Iterable[str | ContextObject]) -> tuple[str, ...]:
    """Return the passages of contexts."""
    return tuple(item if isinstance(item, str) else item.text for item in contexts)


def context_ids(contexts: Iterable[str | ContextObject]) -> list[str | None] | None:
    """Return the name of each context; ``None`` where none has any."""
    ids = [None if isinstance(item, str) else item.id or item.title for item in contexts]
    return ids if any(ids) else None
