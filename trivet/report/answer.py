"""One evaluated row prepared for display: texts rebuilt, shortened and cut at the marked offsets.

Nothing is escaped here. ``templates/answer.html`` draws an `Answer`, on pages and in notebooks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from trivet.errors import DataError
from trivet.records import (
    ContextSentence,
    ContextSpan,
    Evaluation,
    SentenceVerdict,
    SpanReason,
    UnsupportedSpan,
)
from trivet.report.sources import find_sources
from trivet.report.verdict_files import VerdictRow
from trivet.verdict_json import read_evaluation, read_scores

_MAX_CHARACTERS = 20_000  # of one text on a page
_MAX_CONTEXT_CHARACTERS = 60_000  # of all contexts of one answer
_MAX_REASON = 80  # characters of a span or a value beside its reason
_REASONS: dict[SpanReason, str] = {
    "not_supported": "no context supports this",
    "value_not_in_contexts": "no context has this value",
    "value_of_another_passage": "the value of another passage",
}
_OTHER_TEXT = "the log's {} differ from the evaluated text; shown are the sentences of the verdict"

TextSpan = SentenceVerdict | ContextSentence | UnsupportedSpan
SpanT = TypeVar("SpanT", bound=TextSpan)


@dataclass(frozen=True, slots=True)
class ResponsePiece:
    """A piece of a response, inside or outside of an unsupported span."""

    text: str
    probability: float | None  # of the enclosing span
    ends: bool  # whether that span ends here


@dataclass(frozen=True, slots=True)
class ResponsePart:
    """A sentence of a response, or the text between two sentences with ``verdict=None``."""

    pieces: tuple[ResponsePiece, ...]
    verdict: SentenceVerdict | None
    sources: tuple[int, ...] = ()  # numbers of context parts


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """A value in a context, named beside the reason of an unsupported span."""

    said: str
    value: str
    number: int | None  # of the context part that holds it; ``None`` if that is not shown


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a value of the response, or the rest of the marked text, is unsupported."""

    text: str  # of the value, shortened; else a name of the rest
    said: str
    places: tuple[ValuePlace, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextPart:
    """A sentence of a context, or the text between two sentences with ``verdict=None``."""

    text: str
    verdict: ContextSentence | None
    number: int | None = None  # of a source or of a reason's place


@dataclass(frozen=True, slots=True)
class ShownContext:
    """A context on a page."""

    name: str  # index as in the verdict, followed by the context's own name if it has one
    relevance: float | None
    utilization: float | None
    parts: list[ContextPart]
    left_out: int  # number of characters that are not shown


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything a page shows about one row."""

    row: VerdictRow
    scores: dict[str, float | None]
    question: str | None = None  # None if its text is not available
    response: Sequence[ResponsePart] = ()
    reasons: Sequence[Reason] = ()  # one for each value, one for all other unsupported spans
    contexts: Sequence[ShownContext] = ()
    notes: Sequence[str] = ()  # sentences about windows, cuts and rebuilt texts
    anchor: str = ""  # prefix of the ids of its elements, unique on a page


def read_answer(row: VerdictRow, anchor: str) -> Answer:
    """Prepare a row that has a verdict; unreadable details are reported in the notes.

    ``anchor`` must differ between the answers of a page.

    Raises:
        DataError: A score is neither a probability nor null.
    """
    scores = read_scores(row.verdict or {})
    try:
        verdict = read_evaluation(row.verdict or {})
    except DataError as error:
        notes = [f"the details of this verdict cannot be read: {error}"]
        return Answer(row, scores, row.question, notes=notes)
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
    parts = cut_response(response[:_MAX_CHARACTERS], verdict.sentences, verdict.unsupported)
    linked, reasons = _linked(parts, shown, contexts, verdict)
    return Answer(
        row=row,
        scores=scores,
        question=None if row.question is None else row.question[:_MAX_CHARACTERS],
        response=linked,
        reasons=reasons,
        contexts=shown,
        notes=notes,
        anchor=anchor,
    )


def _linked(
    response: Sequence[ResponsePart],
    contexts: Sequence[ShownContext],
    texts: Sequence[str],
    verdict: Evaluation,
) -> tuple[list[ResponsePart], list[Reason]]:
    """Number the sources in the order of the response, then the places that the reasons name.

    The numbers go into the returned parts and reasons, and into the shown contexts.
    """
    shown = {id(part.verdict) for one in contexts for part in one.parts if part.verdict}
    numbers: dict[int, int] = {}

    def number(sentence: ContextSentence) -> int | None:
        place = id(sentence)
        return numbers.setdefault(place, len(numbers) + 1) if place in shown else None

    sources: dict[int, tuple[int, ...]] = {}
    for said, found in zip(verdict.sentences, find_sources(verdict), strict=True):
        places = [number(verdict.contexts[one.context].sentences[one.sentence]) for one in found]
        sources[id(said)] = tuple(place for place in places if place is not None)

    def place(said: str, span: ContextSpan) -> ValuePlace:
        inside = verdict.contexts[span.context : span.context + 1]
        at = (one for each in inside for one in each.sentences if one.start <= span.start < one.end)
        sentence = next(at, None)
        text = texts[span.context][span.start : span.end] if span.context < len(texts) else ""
        return ValuePlace(said, _brief(text), None if sentence is None else number(sentence))

    reasons = [
        Reason(
            _brief(span.text),
            _REASONS[span.reason],
            tuple(
                place(said, at)
                for said, at in (("found there:", span.found_at), ("instead:", span.instead))
                if at is not None
            ),
        )
        for span in verdict.unsupported
        if span.reason != "not_supported"
    ]
    if len(reasons) < len(verdict.unsupported):
        rest = "other marked text" if reasons else "marked text"
        reasons.append(Reason(rest, _REASONS["not_supported"]))
    for one in contexts:
        one.parts[:] = [replace(part, number=numbers.get(id(part.verdict))) for part in one.parts]
    parts = [replace(part, sources=sources.get(id(part.verdict), ())) for part in response]
    return parts, reasons


def _brief(text: str) -> str:
    return text if len(text) <= _MAX_REASON else f"{text[: _MAX_REASON - 1].rstrip()}…"


def evaluation_notes(verdict: Evaluation) -> Iterator[str]:
    """Yield sentences on citations, and on input that is not English or was cut or replaced."""
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
    text: str, sentences: Sequence[SentenceVerdict], unsupported: Sequence[UnsupportedSpan]
) -> list[ResponsePart]:
    """Cut a response at its sentences, and each sentence at its unsupported spans.

    Both are in order and clipped to the text; an earlier one wins where two overlap.
    """
    return [
        ResponsePart(tuple(_pieces(text, begin, end, unsupported)), sentence)
        for begin, end, sentence in _split(0, len(text), sentences)
    ]


def cut_context(text: str, sentences: Sequence[ContextSentence]) -> list[ContextPart]:
    """Cut a context at its sentences."""
    return [
        ContextPart(text[begin:end], sentence)
        for begin, end, sentence in _split(0, len(text), sentences)
    ]


def _pieces(
    text: str, begin: int, end: int, unsupported: Sequence[UnsupportedSpan]
) -> Iterator[ResponsePiece]:
    # Bisection skips the spans that end before the sentence.
    first = bisect_right(unsupported, begin, key=lambda span: span.end)
    for start, stop, span in _split(begin, end, islice(unsupported, first, None)):
        if span is None:
            yield ResponsePiece(text[start:stop], None, False)
        else:
            ends = stop == min(span.end, len(text))
            yield ResponsePiece(text[start:stop], span.probability, ends)


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
            matches(text, one.sentences) for text, one in pairs
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
        own = [scored.id, scored.title] if scored else []
        if not any(own) and number < len(names):
            own = [names[number]]
        name = " · ".join((f"contexts[{number}]", *filter(None, own)))
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
