"""One evaluated row prepared for display: texts rebuilt, shortened and cut at the marked offsets.

Nothing is escaped here. ``templates/answer.html`` draws an `Answer`, on pages and in notebooks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Literal, TypeVar

from trivet.errors import DataError
from trivet.heads import CONTEXT_HEADS
from trivet.records import (
    ContextSentence,
    ContextSpan,
    Evaluation,
    MarkedSpan,
    SentenceVerdict,
)
from trivet.report.shown_sources import Source, find_sources
from trivet.report.verdict_files import VerdictRow
from trivet.report.wording import find_reasons, sentence_word, verdict_word
from trivet.verdict_json import read_evaluation, read_scores

_MAX_CHARACTERS = 20_000  # of one text on a page
_MAX_CONTEXT_CHARACTERS = 60_000  # of all contexts of one answer
_OTHER_TEXT = "the log's {} differ from the evaluated text; shown are the sentences of the verdict"

TextSpan = SentenceVerdict | ContextSentence | MarkedSpan
SpanT = TypeVar("SpanT", bound=TextSpan)


@dataclass(frozen=True, slots=True)
class ResponsePiece:
    """A piece of a response, and the kind of span that it is in."""

    text: str
    kind: Literal["", "unsupported", "check"] = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A link from an answer to sentences of one of its contexts."""

    context: int  # number of the context, from 1
    places: tuple[str, ...]  # ids of the sentences on the page, the best one first


@dataclass(frozen=True, slots=True)
class ResponsePart:
    """A sentence of a response, or the text between two sentences with ``verdict=None``."""

    pieces: tuple[ResponsePiece, ...]
    verdict: SentenceVerdict | None
    word: str = ""  # the verdict in words
    sources: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownReason:
    """Why a span of the response, or the rest of the marked text, is unsupported or to check."""

    text: str
    explanation: str
    places: tuple[tuple[str, Link, str], ...] = ()  # links with the words before and after them
    to_check: bool = False


@dataclass(frozen=True, slots=True)
class ContextPart:
    """A sentence of a context, or the text between two sentences with ``verdict=None``."""

    text: str
    verdict: ContextSentence | None
    page_id: str | None = None  # its id on the page, if a link leads to it


@dataclass(frozen=True, slots=True)
class ShownContext:
    """A context on a page."""

    name: str  # its number from 1, followed by its own name if it has one
    relevance: float | None
    utilization: float | None
    parts: list[ContextPart]
    left_out: int  # number of characters that are not shown


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """Everything a page shows about one row."""

    row: VerdictRow
    scores: dict[str, float | None]
    word: str = ""  # the verdict in words
    question: str | None = None  # None if its text is not available
    response: Sequence[ResponsePart] = ()
    reasons: Sequence[ShownReason] = ()  # one for each value, one for all other spans
    contexts: Sequence[ShownContext] = ()
    notes: Sequence[str] = ()  # sentences about windows, cuts and rebuilt texts


def read_answer(row: VerdictRow, anchor: str) -> ShownAnswer:
    """Prepare a row that has a verdict; unreadable details are reported in the notes.

    ``anchor`` begins the ids of the answer's elements, and must differ between those of a page.

    Raises:
        DataError: A score is neither a probability nor null.
    """
    scores = read_scores(row.verdict or {})
    try:
        verdict = read_evaluation(row.verdict or {})
    except DataError as error:
        notes = [f"the details of this verdict cannot be read: {error}"]
        return ShownAnswer(row, scores, question=row.question, notes=notes)
    notes = list(evaluation_notes(verdict))
    if verdict.windows > 1:
        notes.insert(0, f"read in {verdict.windows} windows of {verdict.window_size} tokens")
    response, contexts, text_notes = displayed_texts(row, verdict)
    notes += text_notes
    for name, text in (("question", row.question or ""), ("response", response)):
        if len(text) > _MAX_CHARACTERS:
            more = len(text) - _MAX_CHARACTERS
            notes.append(f"{more} more characters of the {name} are not shown")
    shown = _shown_contexts(contexts, verdict, row.context_ids)
    marked = [*verdict.unsupported, *verdict.to_check]
    parts = cut_response(response[:_MAX_CHARACTERS], verdict.sentences, marked)
    linked, reasons = _linked(parts, shown, contexts, verdict, anchor)
    return ShownAnswer(
        row=row,
        scores=scores,
        word=verdict_word(verdict),
        question=None if row.question is None else row.question[:_MAX_CHARACTERS],
        response=linked,
        reasons=reasons,
        contexts=shown,
        notes=notes,
    )


def _linked(
    response: Sequence[ResponsePart],
    contexts: Sequence[ShownContext],
    texts: Sequence[str],
    verdict: Evaluation,
    anchor: str,
) -> tuple[list[ResponsePart], list[ShownReason]]:
    """Return the parts with their words and sources, and the reasons.

    The places that they link to go into the shown contexts.
    """
    shown = {id(part.verdict) for context in contexts for part in context.parts if part.verdict}
    places: dict[int, str] = {}  # ids of context sentences

    def link(context: int, sentences: Iterable[int]) -> Link | None:
        linked = []
        for number in sentences:
            sentence = id(verdict.contexts[context].sentences[number])
            if sentence in shown:
                places[sentence] = f"{anchor}-{context + 1}-{number + 1}"
                linked.append(places[sentence])
        return Link(context + 1, tuple(linked)) if linked else None

    def sources(sources_: Sequence[Source]) -> tuple[Link, ...]:
        numbers = dict.fromkeys(source.context for source in sources_)
        links = (
            link(n, [source.sentence for source in sources_ if source.context == n])
            for n in numbers
        )
        return tuple(filter(None, links))

    def at(span: ContextSpan) -> Link:
        holds = [
            number
            for context in verdict.contexts[span.context : span.context + 1]
            for number, sentence in enumerate(context.sentences)
            if sentence.start <= span.start < sentence.end
        ]
        return (link(span.context, holds[:1]) if holds else None) or Link(span.context + 1, ())

    shown_sentences = {
        id(sentence): (sentence_word(sentence, verdict), sources(sources_))
        for sentence, sources_ in zip(verdict.sentences, find_sources(verdict), strict=True)
    }
    reasons = [
        ShownReason(
            reason.text,
            reason.explanation,
            tuple((spot.before, at(spot.span), spot.after) for spot in reason.places),
            reason.to_check,
        )
        for reason in find_reasons(verdict, texts)
    ]
    parts = []
    for part in response:
        word, links = shown_sentences.get(id(part.verdict), ("", ()))
        parts.append(replace(part, word=word, sources=links))
    for shown_context in contexts:
        shown_context.parts[:] = [
            replace(part, page_id=places.get(id(part.verdict))) for part in shown_context.parts
        ]
    return parts, reasons


def evaluation_notes(verdict: Evaluation) -> Iterator[str]:
    """Yield sentences on missing heads, foreign, cut or replaced input, and citations."""
    asked = CONTEXT_HEADS if verdict.sentences else ["relevance"]
    lacking = [name for name in asked if getattr(verdict, name) is None]
    if lacking and any(context.sentences for context in verdict.contexts):
        yield f"the bundle has no head for {' and '.join(lacking)}"
    if verdict.language is not None:
        yield f"not English ({verdict.language}): the model reads English, so this says little"
    if verdict.cut_question_tokens:
        yield f"{verdict.cut_question_tokens} tokens of the question did not fit and were not read"
    if verdict.response_chunks > 1:
        yield f"the response was read in {verdict.response_chunks} chunks"
    if verdict.replaced_characters:
        yield f"{verdict.replaced_characters} characters could not be encoded, read as U+FFFD"
    if (cited := verdict.citations) is not None:
        right = sum(mark.supported for mark in cited.marks)
        recall = "-" if cited.recall is None else f"{cited.recall:.0%}"
        yield (
            f"{right} of {len(cited.marks)} citation marks name a context with a source of their "
            f"sentence; {recall} of the supported sentences with a source cite it"
        )


def rebuilt_texts(verdict: Evaluation) -> tuple[str, tuple[str, ...]]:
    """Return response and contexts as far as the verdict's sentences and spans contain them."""
    response = rebuilt([*verdict.sentences, *verdict.unsupported])
    return response, tuple(rebuilt(context.sentences) for context in verdict.contexts)


def rebuilt(spans: Iterable[TextSpan]) -> str:
    """Join spans at their offsets, with spaces in the gaps."""
    texts, length = [], 0
    for span in sorted(spans, key=lambda span: span.start):
        if span.end > length:
            texts += [" " * (span.start - length), span.text[max(0, length - span.start) :]]
            length = span.end
    return "".join(texts)


def matches(text: str, spans: Iterable[TextSpan]) -> bool:
    """Return whether every span's text is found in ``text`` at its offsets."""
    return all(text[span.start : span.end] == span.text for span in spans)


def cut_response(
    text: str, sentences: Sequence[SentenceVerdict], marked: Iterable[MarkedSpan]
) -> list[ResponsePart]:
    """Cut a response at its sentences, and each sentence at its marked spans.

    Both are clipped to the text; an earlier one wins where two overlap. Marked spans of supported
    sentences are to check.
    """
    spans = sorted(marked, key=attrgetter("start"))
    return [
        ResponsePart(tuple(_pieces(text, begin, end, sentence, spans)), sentence)
        for begin, end, sentence in _split(0, len(text), sentences)
    ]


def cut_context(text: str, sentences: Sequence[ContextSentence]) -> list[ContextPart]:
    """Cut a context at its sentences."""
    return [
        ContextPart(text[begin:end], sentence)
        for begin, end, sentence in _split(0, len(text), sentences)
    ]


def _pieces(
    text: str, begin: int, end: int, sentence: SentenceVerdict | None, spans: Sequence[MarkedSpan]
) -> Iterator[ResponsePiece]:
    kind: Literal["unsupported", "check"] = "unsupported"
    if sentence is not None and sentence.supported:
        kind = "check"
    # Bisection skips the spans that end before the sentence.
    first = bisect_right(spans, begin, key=lambda span: span.end)
    for start, stop, span in _split(begin, end, islice(spans, first, None)):
        yield ResponsePiece(text[start:stop], "" if span is None else kind)


def _split(begin: int, end: int, spans: Iterable[SpanT]) -> Iterator[tuple[int, int, SpanT | None]]:
    """Yield the spans and the gaps between them, covering ``begin`` to ``end``."""
    for span in spans:
        if span.start >= end:
            break
        start, stop = max(span.start, begin), min(span.end, end)
        if start >= stop:
            continue
        if start > begin:
            yield begin, start, None
        yield start, stop, span
        begin = stop
    if begin < end:
        yield begin, end, None


def displayed_texts(row: VerdictRow, verdict: Evaluation) -> tuple[str, tuple[str, ...], list[str]]:
    """Return response, contexts and notes: the row's texts if they fit, else rebuilt ones."""
    notes = []
    response, contexts = rebuilt_texts(verdict)
    if row.response is not None:
        if matches(row.response, [*verdict.sentences, *verdict.unsupported]):
            response = row.response
        else:
            notes.append(_OTHER_TEXT.format("response"))
    if row.contexts is not None:
        pairs = zip(row.contexts, verdict.contexts, strict=False)
        if len(verdict.contexts) in (0, len(row.contexts)) and all(
            matches(text, context.sentences) for text, context in pairs
        ):
            contexts = row.contexts
        else:
            notes.append(_OTHER_TEXT.format("contexts"))
    return response, contexts, notes


def _shown_contexts(
    texts: Sequence[str], verdict: Evaluation, names: Sequence[str | None]
) -> list[ShownContext]:
    left = _MAX_CONTEXT_CHARACTERS
    shown = []
    for number, text in enumerate(texts):
        scored = verdict.contexts[number] if number < len(verdict.contexts) else None
        labels = [scored.id, scored.title] if scored else []
        if not any(labels) and number < len(names):
            labels = [names[number]]
        name = " · ".join((f"[{number + 1}]", *filter(None, labels)))
        kept = text[: min(_MAX_CHARACTERS, left)]
        left -= len(kept)
        shown.append(
            ShownContext(
                name=name,
                relevance=scored.relevance if scored else None,
                utilization=scored.utilization if scored else None,
                parts=cut_context(kept, scored.sentences if scored else ()),
                left_out=len(text) - len(kept),
            )
        )
    return shown
