"""RAGBench's labels: from sentence keys to spans.

- A response sentence listed in ``unsupported_response_sentence_keys`` is unsupported
  (``fully_supported`` is null in most rows of four sets, so nothing is read from it).
- Any other sentence whose support is named has :class:`~trivet.records.Evidence`, with no context
  span where a word such as ``general`` stands in place of keys. A sentence that is neither listed
  as unsupported nor given any support is in neither list: where its support stands is unknown.
- Keys are read without the full stop that some annotations add; keys that still name no sentence
  are left out and counted. Where such a key was to name an unsupported sentence, ``unsupported`` is
  unknown for that row.
- The example scores stay as published, even where they do not follow from the keys (counted).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from trivet.data.labelled.source_report import SourceReport
from trivet.records import ContextSpan, Evidence, Labels, Span

_SUPPORT_WORD = re.compile(r"[a-z]+(_[a-z]+)*")
_SCORE_TOLERANCE = 1e-3


def read_labels(
    values: Mapping[str, Any],
    contexts: Mapping[str, ContextSpan],
    response: Mapping[str, Span],
    place: str,
    report: SourceReport,
) -> Labels:
    """Turn one row's keys into labels.

    Args:
        values: The row, as published.
        contexts: Where the sentence of each context key stands, in the order of the text.
        response: Where the sentence of each response key stands, likewise.
        place: The row's name in the report.
        report: Takes note of what does not fit.
    """
    relevant = _named(values, "all_relevant_sentence_keys", contexts, place, report)
    utilized = _named(values, "all_utilized_sentence_keys", contexts, place, report)
    relevance = _score(values, "relevance_score", place, report)
    utilization = _score(values, "utilization_score", place, report)
    for what, score, spans in (
        ("relevance", relevance, relevant),
        ("utilization", utilization, utilized),
    ):
        if score is not None and spans is not None:
            differs = abs(score - len(spans) / len(contexts)) > _SCORE_TOLERANCE
            report.note(f"{what}_score is not the share of the sentences named", place, differs)

    unsupported_keys = values.get("unsupported_response_sentence_keys")
    unsupported: tuple[Span, ...] | None = None
    if unsupported_keys is not None:
        keys = {bare_key(key) for key in unsupported_keys}
        if keys <= response.keys():
            unsupported = tuple(span for key, span in response.items() if key in keys)
        else:
            report.note("unsupported is unknown: a key names no sentence", place)
    adherent = values.get("adherence_score")
    if adherent is not None and unsupported is not None and adherent == bool(unsupported):
        report.note("unsupported is unknown: it contradicts adherence_score", place)
        unsupported = None
    if adherent is None and unsupported is not None:
        adherent = not unsupported
    return Labels(
        unsupported=unsupported,
        adherent=None if adherent is None else bool(adherent),
        relevant=relevant,
        utilized=utilized,
        evidence=_evidence(values, contexts, response, place, report),
        relevance=relevance,
        utilization=utilization,
        completeness=_score(values, "completeness_score", place, report),
    )


def bare_key(key: object) -> str:
    """Return a key without what some annotations add around it: ``0b.`` and ``0b`` are one."""
    return str(key).strip().rstrip(".")


def _named(
    values: Mapping[str, Any],
    column: str,
    contexts: Mapping[str, ContextSpan],
    place: str,
    report: SourceReport,
) -> tuple[ContextSpan, ...] | None:
    """Return the context sentences that a column names, in the order of the text."""
    if values.get(column) is None:
        return None
    keys = {bare_key(key) for key in values[column]}
    report.note(f"{column} names no sentence", place, len(keys - contexts.keys()))
    return tuple(span for key, span in contexts.items() if key in keys)


def _evidence(
    values: Mapping[str, Any],
    contexts: Mapping[str, ContextSpan],
    response: Mapping[str, Span],
    place: str,
    report: SourceReport,
) -> tuple[Evidence, ...] | None:
    information = values.get("sentence_support_information")
    if information is None:
        return None
    unsupported = {bare_key(key) for key in values.get("unsupported_response_sentence_keys") or ()}
    evidence: dict[str, Evidence] = {}
    for item in information:
        key = bare_key(item.get("response_sentence_key") or "")
        if key not in response:
            report.note("support is given for no sentence of the response", place)
            continue
        if key in unsupported:
            continue
        names = {bare_key(name) for name in item.get("supporting_sentence_keys") or ()}
        unknown = names - contexts.keys()
        words = {name for name in unknown if _SUPPORT_WORD.fullmatch(name)}
        report.note("a supporting key names no sentence", place, len(unknown - words))
        where = tuple(span for name, span in contexts.items() if name in names)
        if where or words:
            evidence[key] = Evidence(response[key], where)
        else:
            report.note("a supported sentence has no support named", place)
    return tuple(evidence[key] for key in response if key in evidence)


def _score(
    values: Mapping[str, Any], column: str, place: str, report: SourceReport
) -> float | None:
    value = values.get(column)
    if value is None:
        return None
    if not math.isfinite(value) or not 0.0 <= value <= 1.0:
        report.note(f"{column} lies outside [0, 1]", place)
        return None
    return float(value)
