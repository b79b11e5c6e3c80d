"""Reading of verdicts from plain dictionaries, as they come from files and networks.

Every field is checked: a number that is no probability, or a span that does not fit its text, is an
error that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from trivet.errors import DataError
from trivet.interface import SentenceEvent
from trivet.records import (
    CitationMark,
    Citations,
    ContextSentence,
    ContextSpan,
    ContextVerdict,
    Evaluation,
    EvidenceSpan,
    SentenceVerdict,
    SpanCategory,
    SpanReason,
    SpanSubcategory,
    UnsupportedSpan,
)

SCORES = ("faithfulness", "relevance", "utilization", "completeness")
Part = TypeVar("Part")
_SHOWN_SPANS = 5
_LONGEST = 10_000_000  # characters; longer texts of a verdict are refused


def read_scores(verdict: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the four scores; a missing field is ``None``.

    Raises:
        DataError: One is neither a probability nor null.
    """
    return {name: _probability_or_none(verdict, name) for name in SCORES}


def read_evaluation(verdict: Mapping[str, Any]) -> Evaluation:
    """Read a verdict from its dictionary; missing fields are empty.

    Raises:
        DataError: A field is not what `Evaluation` says; the message names it.
    """
    return Evaluation(
        id=_text_or_none(verdict, "id"),
        supported_share=_probability_or_none(verdict, "supported_share"),
        adherent=_truth_or_none(verdict, "adherent"),
        unsupported=_parts(verdict, "unsupported", _unsupported),
        sentences=_parts(verdict, "sentences", _sentence),
        contexts=_parts(verdict, "contexts", _context),
        windows=_count(verdict, "windows"),
        window_size=_count(verdict, "window_size"),
        cut_question_tokens=_count(verdict, "cut_question_tokens"),
        response_chunks=_count(verdict, "response_chunks"),
        replaced_characters=_count(verdict, "replaced_characters"),
        threshold=_probability_or_none(verdict, "threshold"),
        language=_text_or_none(verdict, "language"),
        revision=_text_or_none(verdict, "revision"),
        citations=_citations(verdict.get("citations")),
        abstains=_truth_or_none(verdict, "abstains") is True,
        **read_scores(verdict),
    )


def quote_unsupported(verdict: Evaluation) -> str:
    """Quote the first unsupported spans, as an explanation of the scores."""
    if not verdict.unsupported:
        return "nothing unsupported was found"
    return "unsupported: " + ", ".join(repr(s.text) for s in verdict.unsupported[:_SHOWN_SPANS])


def read_event(record: Mapping[str, Any]) -> SentenceEvent:
    """Read an event on a sentence from its dictionary.

    Raises:
        DataError: A field is not what `SentenceEvent` says; the message names it.
    """
    start, end, text = _place(record)
    return SentenceEvent(
        start=start,
        end=end,
        text=text,
        support=_probability_or_none(record, "support"),
        supported=_truth_or_none(record, "supported"),
        unsupported=_parts(record, "unsupported", _unsupported),
        source=_context_span(record, "source"),
        source_text=_text_or_none(record, "source_text"),
        abstains=_truth_or_none(record, "abstains") or False,
        threshold=_probability_or_none(record, "threshold"),
    )


def _unsupported(record: Mapping[str, Any]) -> UnsupportedSpan:
    return UnsupportedSpan(
        *_place(record),
        _probability(record, "probability"),
        reason=_one_of(record, "reason", get_args(SpanReason)) or "not_supported",
        category=_one_of(record, "category", get_args(SpanCategory)),
        subcategory=_one_of(record, "subcategory", get_args(SpanSubcategory)),
        found_at=_context_span(record, "found_at"),
        instead=_context_span(record, "instead"),
    )


def _sentence(record: Mapping[str, Any]) -> SentenceVerdict:
    place = _place(record)
    for name in ("support", "supported"):
        if name not in record:  # null: a sentence without a claim
            raise DataError(f"{name} is missing")
    verdict = _probability_or_none(record, "support"), _truth_or_none(record, "supported")
    named = record.get("evidence") is not None
    evidence = _parts(record, "evidence", _source) if named else None
    return SentenceVerdict(*place, *verdict, evidence, _truth_or_none(record, "abstains") is True)


def _context_span(record: Mapping[str, Any], name: str) -> ContextSpan | None:
    place = record.get(name)
    if place is None:
        return None
    if not isinstance(place, Mapping):
        raise DataError(f"{name} must be an object")
    return ContextSpan(*(_count(place, part) for part in ("context", "start", "end")))


def _one_of(record: Mapping[str, Any], name: str, known: Sequence[Any]) -> Any:
    value = record.get(name)
    if value is not None and value not in known:
        raise DataError(f"{name} is {_short(value)}, none of {', '.join(known)}")
    return value


def _source(record: Mapping[str, Any]) -> EvidenceSpan:
    context, start, end = (_count(record, name) for name in ("context", "start", "end"))
    return EvidenceSpan(context, start, end, _probability(record, "score"))


def _citations(record: object) -> Citations | None:
    if record is None:
        return None
    if not isinstance(record, Mapping):
        raise DataError("citations must be an object")
    recall = _probability_or_none(record, "recall")
    return Citations(_parts(record, "marks", _mark), _probability(record, "precision"), recall)


def _mark(record: Mapping[str, Any]) -> CitationMark:
    start, end = _count(record, "start"), _count(record, "end")
    context = record.get("context")
    if isinstance(context, bool) or not isinstance(context, int):
        raise DataError(f"context is {_short(context)}, which is no whole number")
    return CitationMark(start, end, context, _truth_or_none(record, "supported") is True)


def _context(record: Mapping[str, Any]) -> ContextVerdict:
    return ContextVerdict(
        relevance=_probability_or_none(record, "relevance"),
        utilization=_probability_or_none(record, "utilization"),
        sentences=_parts(record, "sentences", _context_sentence),
        id=_text_or_none(record, "id"),
        title=_text_or_none(record, "title"),
    )


def _context_sentence(record: Mapping[str, Any]) -> ContextSentence:
    scores = (_probability_or_none(record, name) for name in ("relevance", "utilization"))
    return ContextSentence(*_place(record), *scores)


def _place(record: Mapping[str, Any]) -> tuple[int, int, str]:
    start, end, text = _count(record, "start"), _count(record, "end"), record.get("text")
    if not isinstance(text, str) or end - start != len(text):
        raise DataError(
            f"a span from {start} to {end} must hold a text of {end - start} characters"
        )
    if end > _LONGEST:
        raise DataError(f"a span ends at character {end}; no text is that long")
    return start, end, text


def _parts(
    record: Mapping[str, Any], name: str, read: Callable[[Mapping[str, Any]], Part]
) -> tuple[Part, ...]:
    parts = record.get(name)
    if parts is None:
        return ()
    if not isinstance(parts, Iterable) or isinstance(parts, str | bytes | Mapping):
        raise DataError(f"{name} must be a list")
    found = []
    for number, part in enumerate(parts):
        if not isinstance(part, Mapping):
            raise DataError(f"{name}[{number}] must be an object")
        try:
            found.append(read(part))
        except DataError as error:
            raise DataError(f"{name}[{number}]: {error}") from error
    return tuple(found)


def _probability(record: Mapping[str, Any], name: str) -> float:
    value = _probability_or_none(record, name)
    if value is None:
        raise DataError(f"{name} is missing")
    return value


def _probability_or_none(record: Mapping[str, Any], name: str) -> float | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise DataError(f"{name} is {_short(value)}, which is no number from 0 to 1")
    return float(value)


def _count(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DataError(f"{name} is {_short(value)}, which is no whole number from 0")
    return value


def _truth_or_none(record: Mapping[str, Any], name: str) -> bool | None:
    value = record.get(name)
    if value is not None and not isinstance(value, bool):
        raise DataError(f"{name} is {_short(value)}, which is neither true nor false")
    return value


def _text_or_none(record: Mapping[str, Any], name: str) -> str | None:
    value = record.get(name)
    return None if value is None else str(value)


def _short(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return repr(value)[:60]


def lettucedetect_spans(
    verdict: Evaluation, probability: str = "confidence", least: float = 0.0
) -> list[dict[str, Any]]:
    """Return the unsupported spans of a verdict in the format of LettuceDetect.

    Args:
        verdict: The verdict.
        probability: Key of the probability of being unsupported: ``confidence`` in their call,
            ``hallucination_score`` over HTTP.
        least: Minimum of this probability.

    Returns:
        For each span ``start``, ``end`` (characters of the answer), ``text``, its probability, and
        ``category`` and ``subcategory`` where they are known.
    """
    spans = []
    for span in (each for each in verdict.unsupported if each.probability >= least):
        kinds = {"category": span.category, "subcategory": span.subcategory}
        place = {"start": span.start, "end": span.end, probability: span.probability}
        known = {name: kind for name, kind in kinds.items() if kind is not None}
        spans.append({**place, "text": span.text, **known})
    return spans
