"""Types of request bodies: exact types, no unknown keys, refused by the name of the field.

Field names are those of a log (``trivet.logs.column_mapping``), so that rows written for other
tools can be posted unchanged. No message repeats what was sent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Any, Self, TypeAlias, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from trivet.errors import ExampleError, plain_fault
from trivet.evaluation.answer_stream import StreamWindows
from trivet.logs.column_mapping import FIELD_NAMES
from trivet.logs.context_values import CONTEXT_ID_NAMES, CONTEXT_TEXT_NAMES, names_or_none
from trivet.logs.conversation import Turns, read_turns
from trivet.records import ContextName, FailedEvaluation, RagExample
from trivet.serve.http.request_errors import RequestError, failure_error
from trivet.serve.option_types import Strict, Threshold

T = TypeVar("T")

_SHOWN_FAULTS, _SHOWN_NAMES, _SHOWN_LETTERS = 5, 5, 40
# The tags of a union appear in the place of a fault; parentheses mark them as no fields.
_TEXT, _OBJECT, _ONE, _MANY = "(text)", "(object)", "(one)", "(many)"
_MESSAGES = "(messages)"
_MAX_ID_CHARACTERS = 1000


class Body(BaseModel):
    """A part of a request: exact types, no unknown keys, no NaN, one name for each field."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, data: Any) -> Any:
        """Refuse all unknown keys in one fault: one for each would fill the memory."""
        if not isinstance(data, dict):
            return data
        known = _field_names(cls)
        unknown = [name for name in data if name not in known]
        if unknown:
            shown = [name[:_SHOWN_LETTERS] for name in unknown[:_SHOWN_NAMES]]
            if len(unknown) > len(shown):
                shown.append(f"and {len(unknown) - len(shown)} more")
            raise PydanticCustomError(
                "unknown_keys",
                "unknown: {unknown}; known: {known}",
                {"unknown": ", ".join(shown), "known": ", ".join(known)},
            )
        seen: dict[str, str] = {}
        for name in data:
            other = seen.setdefault(known[name], name)
            if other != name:
                message = "{one} and {other} mean the same; keep one"
                raise PydanticCustomError("ambiguous", message, {"one": other, "other": name})
        return data


@functools.cache
def _field_names(model: type[Body]) -> dict[str, str]:
    """Return the field of each accepted name."""
    names: dict[str, str] = {}
    for field, about in model.model_fields.items():
        aliases = about.validation_alias
        choices = aliases.choices if isinstance(aliases, AliasChoices) else [field]
        names |= {str(name): field for name in choices}
    return names


def _named(names: Iterable[str], description: str, default: Any = ...) -> Any:
    """Return a field with several names, of which the first is the canonical one."""
    first, *others = names
    also = f" Also accepted as {', '.join(others)}." if others else ""
    aliases = AliasChoices(first, *others)
    return Field(default, validation_alias=aliases, description=description + also)


class ContextObject(Body):
    """A passage with its id."""

    text: str = _named(CONTEXT_TEXT_NAMES, "Text of the passage.")
    id: str | None = Field(
        default=None,
        validation_alias=AliasChoices(*CONTEXT_ID_NAMES),
        min_length=1,
        max_length=_MAX_ID_CHARACTERS,
        description="Id of the context; returned with its verdict, and cited as [id].",
    )
    title: str | None = Field(
        default=None,
        max_length=_MAX_ID_CHARACTERS,
        description="Title of the context; returned with its verdict, and cited as [title].",
    )
    metadata: dict[str, Any] | None = Field(
        default=None, description="Other data about the context; not read."
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
# Stops at the first fault: a million wrong members would be a million faults.
Contexts: TypeAlias = Annotated[
    list[Context],
    FailFast(),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]
TimeoutMs: TypeAlias = Annotated[
    float | None, Field(gt=0, description="Longest time to the response, in milliseconds.")
]
AllowEmpty: TypeAlias = Annotated[
    bool, Field(description="Evaluate a response without contexts instead of refusing it.")
]


ExampleId: TypeAlias = Annotated[
    str | None,
    Field(max_length=_MAX_ID_CHARACTERS, description="Id of the example; returned in the verdict."),
]

_QUESTION = _named(FIELD_NAMES["question"], "User's question; may be empty.")
_CONTEXTS = _named(
    FIELD_NAMES["contexts"], "Retrieved passages: strings or objects; one string is one passage."
)
_RESPONSE = _named(FIELD_NAMES["response"], "Generated answer; empty for relevance alone.")


class ExampleBody(Body):
    """A question, the passages retrieved for it, and the answer."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "question": "When was the mill built?",
                "contexts": ["The mill was built in 1817. It is made of stone."],
                "response": "It was built in 1871.",
            }
        }
    )

    question: str = _QUESTION
    contexts: Contexts = _CONTEXTS
    response: str = _RESPONSE
    id: ExampleId = None

    def example(self) -> RagExample:
        """Return the example for the evaluator."""
        passages, named = texts(self.contexts), names(self.contexts)
        return RagExample(self.question, passages, self.response, self.id, context_names=named)


class RequestOptions(Body):
    """Options of a request."""

    timeout_ms: TimeoutMs = None
    allow_empty_contexts: AllowEmpty = False
    threshold: Threshold = None
    strict: Strict = False


class EvaluateOne(RequestOptions, ExampleBody):
    """One example to evaluate."""


class _Examples(Body):
    examples: Annotated[list[ExampleBody], FailFast()] = Field(description="Examples to evaluate.")


class EvaluateMany(RequestOptions, _Examples):
    """Several examples to evaluate; one that fails has an error in its place."""


class EvaluateMessages(RequestOptions):
    """A conversation, of which the last answer is evaluated, or each."""

    messages: list[dict[str, Any]] = Field(
        description="Chat messages with role and content. The question is the user's last message "
        "before the answer, with the earlier turns; contexts are the results of tools, or the "
        "system's messages where there is none."
    )
    contexts: Contexts = _named(
        FIELD_NAMES["contexts"], "Passages in place of the messages' own.", default=[]
    )
    turns: Annotated[Turns, Field(description="Answers that are evaluated.")] = "last"
    id: ExampleId = None

    def examples(self) -> list[RagExample]:
        """Return the example of each answer; raises ``ExampleError`` if the messages are wrong."""
        read = [turn.example for turn in read_turns(self.messages, None, self.turns, self.id)]
        if "contexts" not in self.model_fields_set:
            return read
        passages, named = texts(self.contexts), names(self.contexts)
        return [replace(example, contexts=passages, context_names=named) for example in read]


class RelevanceBody(Body):
    """A question and passages, before an answer is generated."""

    question: str = _QUESTION
    contexts: Contexts = _CONTEXTS
    id: ExampleId = None
    timeout_ms: TimeoutMs = None


class StreamBody(RequestOptions, ExampleBody):
    """An answer that is still being written: its text so far."""

    response: str = _named(FIELD_NAMES["response"], "Text of the answer so far.")
    start: Annotated[
        int, Field(ge=0, description="First character to judge: the start of the last end event.")
    ] = 0
    complete: Annotated[
        bool, Field(description="Judge the last sentence too; otherwise it may go on.")
    ] = True
    verdict: Annotated[
        bool, Field(description="Send the verdict on all of a complete answer after its sentences.")
    ] = True
    windows: Annotated[
        StreamWindows,
        Field(description="Windows that judge a sentence: one of its best sources, or all."),
    ] = "evidence"

    @model_validator(mode="after")
    def _check_start(self) -> Self:
        if self.start > len(self.response):
            raise PydanticCustomError(
                "start",
                "start ({start}) is past the end of response ({length} characters)",
                {"start": self.start, "length": len(self.response)},
            )
        return self

    def example(self) -> RagExample:
        """Return the example without a response."""
        return replace(super().example(), response="")


class ClassifyParameters(RequestOptions):
    """The texts that an answer is compared with, and the options."""

    context: Contexts = Field(
        description="Sources of the answer: passages, or one text, cut at its blank lines."
    )
    question: str = Field(default="", description="User's question; may be empty.")


class ClassifyBody(Body):
    """The request of a gateway that asks for unsupported spans (token_spans.v1)."""

    inputs: str = Field(description="Generated answer.")
    parameters: ClassifyParameters = Field(description="Context, question and options.")


def _kind_of_request(value: Any) -> str:
    if isinstance(value, EvaluateMany) or (isinstance(value, dict) and "examples" in value):
        return _MANY
    is_talk = isinstance(value, dict) and "messages" in value
    return _MESSAGES if is_talk or isinstance(value, EvaluateMessages) else _ONE


EvaluateBody: TypeAlias = Annotated[
    Annotated[EvaluateOne, Tag(_ONE)]
    | Annotated[EvaluateMany, Tag(_MANY)]
    | Annotated[EvaluateMessages, Tag(_MESSAGES)],
    Discriminator(_kind_of_request),
]


def examples_of(body: EvaluateBody, check_number: Callable[[int], None]) -> list[RagExample]:
    """Return the examples of a request; messages that cannot be read raise ``RequestError``.

    ``check_number`` raises if there are too many, before they are made where possible.
    """
    if isinstance(body, EvaluateMany):
        check_number(len(body.examples))
        return [example.example() for example in body.examples]
    if isinstance(body, EvaluateOne):
        return [body.example()]
    try:
        examples = body.examples()
    except ExampleError as error:
        raise failure_error(FailedEvaluation.of(error, body.id)) from None
    check_number(len(examples))
    return examples


def texts(contexts: Iterable[str | ContextObject]) -> tuple[str, ...]:
    """Return the text of each context."""
    return tuple(item if isinstance(item, str) else item.text for item in contexts)


def names(contexts: Iterable[str | ContextObject]) -> tuple[ContextName, ...]:
    """Return the name of each context; none if no context has one."""
    return names_or_none(
        ContextName() if isinstance(item, str) else ContextName(item.id, item.title or None)
        for item in contexts
    )


def context_ids(example: RagExample) -> list[str | None] | None:
    """Return the id, else the title, of each context; ``None`` if no context has one."""
    return [name.id or name.title for name in example.context_names] or None


def parser(body: Any) -> Callable[[bytes], Any]:
    """Return a function that parses bodies of one model, or of a union of models.

    It raises ``RequestError``: ``invalid_json``, ``invalid_unicode`` (lone surrogates, bytes that
    are not UTF-8) or ``validation``.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(body)

    def parse(raw: bytes) -> Any:
        try:
            return adapter.validate_json(raw)
        except ValidationError as error:
            raise _refusal(error) from None

    return parse


def _refusal(error: ValidationError) -> RequestError:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    if faults[0]["type"] == "json_invalid":
        message = plain_fault(faults[0]["msg"])  # names the position, not the content
        is_unicode = "unicode" in message or "hex escape" in message
        return RequestError("invalid_unicode" if is_unicode else "invalid_json", message)
    shown = [_describe(fault) for fault in faults[:_SHOWN_FAULTS]]
    if len(faults) > len(shown):
        shown.append(f"and {len(faults) - len(shown)} more")
    return RequestError("validation", "; ".join(shown))


def _describe(fault: ErrorDetails) -> str:
    """Return the place and the kind of a fault, without the value."""
    path = ""
    for part in fault["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith("("):
            path += f".{part}"
    message = plain_fault(fault["msg"])
    if fault["type"] == "unknown_keys" and fault["loc"] == (_ONE,):
        message += ", examples, messages"  # the keys that the other two forms are known by
    return f"{path.removeprefix('.') or 'body'}: {message}"
