"""Plain data: examples, labels and verdicts. Imports the standard library alone.

Offsets count **characters** (Unicode code points) of the caller's own string, start included and
end excluded.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self


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


class ContextName(NamedTuple):
    """Names of a passage: its id and its title."""

    id: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class RagExample:
    """A question, the retrieved passages and the generated response.

    Attributes:
        question: Question; may be empty.
        contexts: Retrieved passages, in the order given to the generator.
        response: Generated answer; if it is empty ("not generated yet"), only relevance is
            evaluated.
        id: Name of the example, repeated in the verdict.
        context_sentences: Sentences of each context, if the data has its own; ``None`` means those
            of the sentence splitter.
        response_sentences: Sentences of the response, likewise.
        context_names: Name of each context; empty if none has one.
    """

    question: str
    contexts: tuple[str, ...]
    response: str
    id: str | None = None
    context_sentences: tuple[tuple[Span, ...], ...] | None = None
    response_sentences: tuple[Span, ...] | None = None
    context_names: tuple[ContextName, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A supported span of the response and the context spans that support it.

    ``contexts`` is empty for text that no passage in particular supports, such as transitions and
    "the passages do not say".
    """

    response: Span
    contexts: tuple[ContextSpan, ...]


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of an example. ``None`` means unknown; an empty tuple means known to be none.

    Attributes:
        unsupported: Spans of the response that no context supports.
        adherent: Whether the whole response is supported.
        relevant: Spans of the contexts that help to answer the question.
        utilized: Spans of the contexts that the response uses.
        evidence: Support of every supported span of the response.
        relevance, utilization, completeness: Scores of the annotators in [0, 1], if there are any.
        unclear: Spans of the response whose support is unknown although ``unsupported`` is known.
        contradicted: Those of the unsupported spans that the contexts contradict; they do not
            mention the others. ``None`` if this is unknown.
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
    contradicted: tuple[Span, ...] | None = None

    def known_conflicts(self) -> tuple[Span, ...] | None:
        """Return ``contradicted``; nothing is, where nothing is unsupported."""
        return () if self.unsupported == () else self.contradicted


@dataclass(frozen=True, slots=True)
class PublishedScores:
    """Scores of another judge that a data set holds for an example, in [0, 1] or ``None``."""

    judge: str
    faithfulness: float | None
    relevance: float | None
    utilization: float | None


@dataclass(frozen=True, slots=True)
class LabelledExample:
    """An example with its labels.

    Attributes:
        example: Texts.
        labels: Labels.
        source: Data set, with the component set if there are several: ``ragbench/covidqa``.
        group: Source document; examples of one group are never on both sides of a split.
        generator: Model that wrote the response, if known.
        split: Name of the split by its publisher, if any.
        weight: Weight in the loss, >= 0.
        draws: Mean number of times that an epoch of training shows it, > 0.
        published: Scores of other judges, one for each that has any.
    """

    example: RagExample
    labels: Labels
    source: str
    group: str
    generator: str | None = None
    split: str | None = None
    weight: float = 1.0
    draws: float = 1.0
    published: tuple[PublishedScores, ...] = ()


SpanReason = Literal[
    "value_not_in_contexts",
    "value_of_another_passage",
    "quotation_not_in_contexts",
    "identifier_not_in_contexts",
    "near_threshold",
    "not_supported",
]
SpanCategory = Literal["contradiction", "fabricated_reference", "unsupported_addition"]
SpanSubcategory = Literal["numerical", "temporal", "entity", "value"]


@dataclass(frozen=True, slots=True)
class MarkedSpan:
    """A span of the response that no context supports, or that a person should check.

    Attributes:
        start, end, text: Place in the response, and ``response[start:end]``.
        probability: Mean probability of its tokens to be **unsupported**; of a value, that of its
            sentence.
        reason: Why it is marked.
        category, subcategory: Kind of the error of a value, by LettuceDetect's taxonomy; ``None``
            for other text.
        found_at: Place of the value in the other passage.
        instead: A comparable value in the sentence's sources.
    """

    start: int
    end: int
    text: str
    probability: float
    reason: SpanReason = "not_supported"
    category: SpanCategory | None = None
    subcategory: SpanSubcategory | None = None
    found_at: ContextSpan | None = None
    instead: ContextSpan | None = None


@dataclass(frozen=True, slots=True)
class EvidenceSpan:
    """A sentence of a context that supports a response sentence, with its probability to do so."""

    context: int
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class SentenceVerdict:
    """A sentence of the response, with its support probability and its verdict.

    Attributes:
        start, end, text: Place in the response, and ``response[start:end]``.
        support: Probability that the contexts support it; ``None`` without a claim.
        supported: Verdict; ``None`` without a claim, since there is nothing to check.
        evidence: Its sources, best first; ``None`` if the bundle has no evidence head.
        abstains: Whether it says that there is no answer.
    """

    start: int
    end: int
    text: str
    support: float | None
    supported: bool | None
    evidence: tuple[EvidenceSpan, ...] | None = None
    abstains: bool = False


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """A token of the response, with its support probability and its verdict."""

    start: int
    end: int
    text: str
    support: float
    supported: bool


@dataclass(frozen=True, slots=True)
class ContextSentence:
    """A sentence of a context; without its head, or without response, a score is ``None``."""

    start: int
    end: int
    text: str
    relevance: float | None
    utilization: float | None


@dataclass(frozen=True, slots=True)
class ContextVerdict:
    """A context with its name, and the means over its sentences (``None`` if they have none)."""

    relevance: float | None
    utilization: float | None
    sentences: tuple[ContextSentence, ...]
    id: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class CitationMark:
    """A citation mark such as ``[1]`` or ``[doc-7]``; ``[1, 2]`` is one for each context."""

    start: int
    end: int
    context: int  # that it names, counted from 0 (``[1]`` is 0); there may be none
    supported: bool  # whether its sentence is supported and has a source in this context


@dataclass(frozen=True, slots=True)
class Citations:
    """The citation marks of a response, in order."""

    marks: tuple[CitationMark, ...]
    precision: float  # share of the marks that are supported
    recall: float | None  # share of the supported sentences with a source that cite it


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The verdict on one example. Frozen; every number is finite or ``None``, never NaN.

    A bundle may lack heads. Without support, ``faithfulness``, ``supported_share``, ``adherent``
    and ``threshold`` are ``None`` and there are no sentences; without relevance or utilization,
    theirs and ``completeness`` are ``None``.

    Attributes:
        id: Name of the example.
        faithfulness: Support of the weakest part or parts of the response, in [0, 1]. ``None``
            without a response, and of a response that abstains.
        supported_share: Share of the response's sentences that are supported.
        relevance: Expected share of the context sentences that help to answer the question.
            ``None`` without contexts.
        utilization: Expected share of the context sentences that the response uses. ``None``
            without contexts or without a response; 0 of a response that abstains.
        completeness: Share of the relevant context that the response uses. ``None`` as utilization,
            and of a response that abstains or has no supported sentence.
        adherent: Whether no sentence of the response is unsupported.
        unsupported: Spans of the response that no context supports.
        sentences, contexts: One verdict for each, in order.
        windows, window_size: Number of windows that the encoder read, and their maximum tokens.
        cut_question_tokens: Number of question tokens that did not fit and were **not** read.
        response_chunks: Number of chunks in which the response was read (1: whole).
        replaced_characters: Number of lone surrogates, which were read as U+FFFD.
        threshold: Support below which a sentence is unsupported, of the bundle or the call.
        language: Language of a response or contexts that are not English: ``de``, or ``und`` if
            it is unknown. The model reads English, so such a verdict says little.
        revision: Commit of a bundle from the hub; ``None`` for other bundles.
        citations: Citation marks such as ``[1]``; ``None`` if the response has none.
        abstains: Whether the response says that there is no answer, and claims nothing.
        to_check: Spans of supported sentences that a person should look at, each with its reason.
    """

    id: str | None
    faithfulness: float | None
    supported_share: float | None
    relevance: float | None
    utilization: float | None
    completeness: float | None
    adherent: bool | None
    unsupported: tuple[MarkedSpan, ...]
    sentences: tuple[SentenceVerdict, ...]
    contexts: tuple[ContextVerdict, ...]
    windows: int
    window_size: int
    cut_question_tokens: int
    response_chunks: int
    replaced_characters: int
    threshold: float | None = None
    language: str | None = None
    revision: str | None = None
    citations: Citations | None = None
    abstains: bool = False
    to_check: tuple[MarkedSpan, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain dictionaries, lists, numbers and strings."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def to_json(self) -> str:
        """Return the verdict as one line of JSON; never contains NaN."""
        return to_json_text(self.to_dict())

    def _repr_html_(self) -> str:
        """Return the display in a notebook, drawn as in a report."""
        return str(_package().render_notebook(self))

    def __str__(self) -> str:
        """Return the display in a terminal, without colours."""
        return str(_package().render_text(self))

    def __rich__(self) -> Any:
        """Return the display in a terminal, for `rich.print`."""
        return _package().render_terminal(self)


def _plain(value: Any) -> Any:
    """Return records as dictionaries: ``dataclasses.asdict`` without its slow deep copies."""
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    fields = getattr(value, "__dataclass_fields__", None)
    return value if fields is None else {name: _plain(getattr(value, name)) for name in fields}


def _package() -> Any:
    """Return the package itself, whose door draws verdicts: this module imports no other."""
    return sys.modules[__name__.partition(".")[0]]


_LINE_ENDS = "\x85\u2028\u2029"


def to_json_text(record: dict[str, Any]) -> str:
    """Return a record as one line of JSON that can be encoded as UTF-8.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    for character in _LINE_ENDS:  # some readers of lines end one there; they are in strings alone
        text = text.replace(character, f"\\u{ord(character):04x}")
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8, but can be escaped in ASCII.
        return json.dumps(record, allow_nan=False)
    return text


@dataclass(frozen=True, slots=True)
class FailedEvaluation:
    """An example that could not be evaluated, in place of its verdict."""

    id: str | None  # of the example, if it could be read
    code: str  # short, stable name of the reason: ``empty_contexts``, ``invalid_row``...
    message: str  # description of the error, with numbers and a way out

    @classmethod
    def of(cls, error: Exception, id: str | None = None) -> Self:  # noqa: A002
        """Return the failure for an error."""
        return cls(id=id, code=getattr(error, "code", "invalid_row"), message=str(error))
