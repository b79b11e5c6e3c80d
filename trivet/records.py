"""Plain data that flows through the house: what goes in, what is known of it, what comes out.

Ground floor: standard library only. Every offset in this file counts **characters**, that is
Unicode code points of the caller's own string, start included and end excluded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start`` (included) to ``end`` (excluded) of one text."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"span [{self.start}, {self.end}) must satisfy 0 <= start <= end")


@dataclass(frozen=True, slots=True)
class ContextSpan:
    """Characters ``start`` to ``end`` of the context at position ``context``, counted from 0."""

    context: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.context < 0 or not 0 <= self.start <= self.end:
            raise ValueError(
                f"span [{self.start}, {self.end}) of context {self.context} must satisfy "
                "0 <= context and 0 <= start <= end"
            )


@dataclass(frozen=True, slots=True)
class RagExample:
    """One question, the passages retrieved for it and the response that was generated.

    Attributes:
        question: What was asked; may be empty.
        contexts: The retrieved passages, in the order given to the generator.
        response: The generated answer; empty means "not generated yet", and then relevance alone is
            judged.
        id: The caller's own name for the example; comes back in the verdict.
        context_sentences: The sentences of each context, where the data brings its own; ``None``
            lets the sentence splitter decide.
        response_sentences: The sentences of the response, likewise.
    """

    question: str
    contexts: tuple[str, ...]
    response: str
    id: str | None = None
    context_sentences: tuple[tuple[Span, ...], ...] | None = None
    response_sentences: tuple[Span, ...] | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A supported stretch of the response and the context stretches that support it.

    ``contexts`` is empty for what is supported by no passage in particular: transitions, "the
    passages do not say".
    """

    response: Span
    contexts: tuple[ContextSpan, ...]


@dataclass(frozen=True, slots=True)
class Labels:
    """What is known of an example. ``None`` means unknown; an empty tuple means known to be none.

    Attributes:
        unsupported: Stretches of the response that no context supports.
        adherent: Whether the whole response is supported.
        relevant: Stretches of the contexts that help to answer the question.
        utilized: Stretches of the contexts that the response drew on.
        evidence: For every supported stretch of the response, where its support stands.
        relevance: The annotators' own example score in [0, 1], where the data brings one.
        utilization: Likewise.
        completeness: Likewise.
        unclear: Where ``unsupported`` is known: stretches of which it is not known all the same
            whether they are supported.
    """

    unsupported: tuple[Span, ...] | None = None
    adherent: bool | None = None
    relevant: tuple[ContextSpan, ...] | None = None
    utilized: tuple[ContextSpan, ...] | None = None
    evidence: tuple[Evidence, ...] | None = None
    relevance: float | None = None
    utilization: float | None = None
    completeness: float | None = None
    unclear: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """An example with what is known of it.

    Attributes:
        example: The texts.
        labels: What is known.
        source: The data set, and the component set where there are several: ``ragbench/covidqa``.
        group: The source document; examples of one group never stand on both sides of a split.
        generator: The model that wrote the response, where known.
        split: The publisher's own name for the split, where there is one.
        weight: How much the example counts in the loss, >= 0.
    """

    example: RagExample
    labels: Labels
    source: str
    group: str
    generator: str | None = None
    split: str | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class UnsupportedSpan:
    """A stretch of the response that nothing supports.

    Attributes:
        start: First character.
        end: One past the last character.
        text: ``response[start:end]``.
        probability: Mean probability, over the tokens of the span, that they are **unsupported**.
    """

    start: int
    end: int
    text: str
    probability: float


@dataclass(frozen=True, slots=True)
class SentenceVerdict:
    """One sentence of the response: its mean support probability and the verdict on it."""

    start: int
    end: int
    text: str
    support: float
    supported: bool


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """One token of the response: its support probability and whether that is enough."""

    start: int
    end: int
    text: str
    support: float
    supported: bool


@dataclass(frozen=True, slots=True)
class ContextSentence:
    """One sentence of a context; ``utilization`` is ``None`` where there is no response."""

    start: int
    end: int
    text: str
    relevance: float
    utilization: float | None


@dataclass(frozen=True, slots=True)
class ContextVerdict:
    """One context: the mean over its sentences, ``None`` where it has no token; the sentences."""

    relevance: float | None
    utilization: float | None
    sentences: tuple[ContextSentence, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The verdict on one example. Frozen; every number is finite or ``None``, never NaN.

    Attributes:
        id: The example's own id.
        faithfulness: In [0, 1]: support of the weakest part of the response. ``None`` without a
            response.
        supported_share: Share of the response's sentences that are supported.
        relevance: Expected share of the context sentences that help to answer the question.
            ``None`` without contexts.
        utilization: Expected share of the context sentences that the response drew on.
            ``None`` without contexts or without a response.
        completeness: Of what is relevant, the share that was utilized. ``None`` as utilization.
        adherent: Whether faithfulness reaches the bundle's threshold.
        unsupported: Stretches of the response that nothing supports.
        sentences: The sentences of the response.
        contexts: One verdict a context, in order.
        windows: How many windows the encoder read.
        window_size: The most tokens that each of them could hold.
        cut_question_tokens: How many tokens of the question did not fit and were **not** read.
        response_chunks: In how many chunks the response was read (1: whole).
        replaced_characters: How many characters could not be encoded (lone surrogates) and were
            read as U+FFFD.
    """

    id: str | None
    faithfulness: float | None
    supported_share: float | None
    relevance: float | None
    utilization: float | None
    completeness: float | None
    adherent: bool | None
    unsupported: tuple[UnsupportedSpan, ...]
    sentences: tuple[SentenceVerdict, ...]
    contexts: tuple[ContextVerdict, ...]
    windows: int
    window_size: int
    cut_question_tokens: int
    response_chunks: int
    replaced_characters: int

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain dictionaries, lists, numbers and strings."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def to_json(self) -> str:
        """Return the verdict as one line of JSON; never contains NaN."""
        return to_json_text(self.to_dict())

    def _repr_html_(self) -> str:
        """Return what a notebook shows, drawn as in a report."""
        return str(_renderers["notebook"](self))

    def __rich__(self) -> Any:
        """Return what a terminal shows through `rich.print`."""
        return _renderers["terminal"](self)


def _plain(value: Any) -> Any:
    """Return records as dictionaries: ``dataclasses.asdict`` without its deep copies.

    Every row of a log comes through here, and its numbers and texts cannot change.
    """
    if isinstance(value, tuple):
        return tuple(_plain(each) for each in value)
    fields = getattr(value, "__dataclass_fields__", None)
    return value if fields is None else {name: _plain(getattr(value, name)) for name in fields}


_Renderer = Callable[[Evaluation], Any]
_renderers: dict[str, _Renderer] = {}


def set_renderers(notebook: _Renderer, terminal: _Renderer) -> None:
    """Set how notebooks and terminals display an ``Evaluation``; called once by the package.

    Args:
        notebook: Returns HTML for ``_repr_html_``.
        terminal: Returns a rich renderable for ``__rich__``.
    """
    _renderers.update(notebook=notebook, terminal=terminal)


def to_json_text(record: dict[str, Any]) -> str:
    """Return a record as one line of JSON that UTF-8 can hold.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; escaped, the line is plain ASCII and means the same.
        return json.dumps(record, allow_nan=False)
    return text


_SURROGATES = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> tuple[str, int]:
    """Replace each lone surrogate by U+FFFD, so that offsets hold; return text and count."""
    if text.isascii():  # known without a look at the text
        return text, 0
    return _SURROGATES.subn("\ufffd", text)


@dataclass(frozen=True, slots=True)
class FailedEvaluation:
    """An example that could not be judged, in the place where its verdict would stand.

    Attributes:
        id: The example's own id, where it could be read.
        code: A short, stable name of the reason: ``empty_contexts``, ``invalid_row``...
        message: What was wrong, with the numbers, and the way out.
    """

    id: str | None
    code: str
    message: str

    @classmethod
    def of(cls, error: Exception, id: str | None = None) -> Self:  # noqa: A002
        """Build the failure that stands for ``error``."""
        return cls(id=id, code=getattr(error, "code", "invalid_row"), message=str(error))


class ExampleError(ValueError):
    """The example itself cannot be judged; ``code`` names the reason for programs."""

    def __init__(self, message: str, code: str = "invalid_row") -> None:
        super().__init__(message)
        self.code = code


class DataError(ValueError):
    """A data file or a data specification cannot be read."""


class WindowError(ValueError):
    """Window settings leave no room for what must stand in a window."""


class ConfigError(ValueError):
    """A configuration is refused; the message names the key."""


class BundleError(ValueError):
    """A bundle is refused before it is used; the message names the file."""


class DivergedError(RuntimeError):
    """A loss or a gradient of training is NaN or infinite; the message names where to look."""


class BackendError(RuntimeError):
    """An engine failed, or answered with something that is not a probability; ``code`` says."""

    def __init__(self, message: str, code: str = "backend_failed") -> None:
        super().__init__(message)
        self.code = code


class ServerError(RuntimeError):
    """A server gave no verdict, for a reason that lies in no example.

    Attributes:
        status: The HTTP status; ``None`` where no answer came.
        error_type: What the server calls the reason, such as ``overloaded`` or ``unauthorized``;
            without an answer ``unreachable`` or ``timeout``, and ``invalid_answer`` where what
            answered is no Trivet server.
        request_id: The name under which the server's log has the request.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        error_type: str = "invalid_answer",
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.request_id = request_id
