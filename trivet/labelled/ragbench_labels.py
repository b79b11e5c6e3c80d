"""RAGBench's labels, from sentence keys to spans, and the scores of other judges that it holds.

- A response sentence in ``unsupported_response_sentence_keys`` is unsupported
  (``fully_supported`` is null in most rows of four sets, so it is not used).
- Any other sentence with named support has :class:`~trivet.records.Evidence`, without a context
  span if a word such as ``general`` replaces the keys. The support of a sentence that is neither
  listed as unsupported nor given any support is unknown.
- Keys are read without the full stop that some annotations add. Keys that name no sentence are
  left out and counted. If such a key should name an unsupported sentence, ``unsupported`` is
  unknown for that row.
- The example scores stay as published, even if they do not follow from the keys (counted).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from trivet.labelled.source_report import SourceReport
from trivet.records import ContextSpan, Evidence, Labels, PublishedScores, Span

_SUPPORT_WORD = re.compile(r"[a-z]+(_[a-z]+)*")
_SCORE_TOLERANCE = 1e-3


def read_labels(
    values: Mapping[str, Any],
    contexts: Mapping[str, ContextSpan],
    response: Mapping[str, Span],
    location: str,
    report: SourceReport,
) -> Labels:
    """Turn the keys of one row into labels, given the spans of its sentences by key, in order."""

    def score(column: str) -> float | None:
        value = values.get(column)
        if value is not None and not (math.isfinite(value) and 0.0 <= value <= 1.0):
            report.note(f"{column} lies outside [0, 1]", location)
            return None
        return None if value is None else float(value)

    spans: dict[str, tuple[ContextSpan, ...] | None] = {}
    scores: dict[str, float | None] = {}
    for name, adjective in (("relevance", "relevant"), ("utilization", "utilized")):
        column = f"all_{adjective}_sentence_keys"
        named = None
        if values.get(column) is not None:
            keys = {bare_key(key) for key in values[column]}
            report.note(f"{column} names no sentence", location, len(keys - contexts.keys()))
            named = tuple(span for key, span in contexts.items() if key in keys)
        spans[adjective], scores[name] = named, (value := score(f"{name}_score"))
        if value is not None and named is not None:
            differs = abs(value - len(named) / len(contexts)) > _SCORE_TOLERANCE
            report.note(f"{name}_score is not the share of the sentences named", location, differs)

    unsupported_keys = values.get("unsupported_response_sentence_keys")
    unsupported: tuple[Span, ...] | None = None
    if unsupported_keys is not None:
        keys = {bare_key(key) for key in unsupported_keys}
        if keys <= response.keys():
            unsupported = tuple(span for key, span in response.items() if key in keys)
        else:
            report.note("unsupported is unknown: a key names no sentence", location)
    adherent = values.get("adherence_score")
    if adherent is not None and unsupported is not None and adherent == bool(unsupported):
        report.note("unsupported is unknown: it contradicts adherence_score", location)
        unsupported = None
    if adherent is None and unsupported is not None:
        adherent = not unsupported
    return Labels(
        unsupported=unsupported,
        adherent=None if adherent is None else bool(adherent),
        relevant=spans["relevant"],
        utilized=spans["utilized"],
        evidence=_evidence(values, contexts, response, location, report),
        relevance=scores["relevance"],
        utilization=scores["utilization"],
        completeness=score("completeness_score"),
    )


def bare_key(key: object) -> str:
    """Return a key without the additions of some annotations: ``0b.`` and ``0b`` are equal."""
    return str(key).strip().rstrip(".")


def _evidence(
    values: Mapping[str, Any],
    contexts: Mapping[str, ContextSpan],
    response: Mapping[str, Span],
    location: str,
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
            report.note("support is given for no sentence of the response", location)
            continue
        if key in unsupported:
            continue
        names = {bare_key(name) for name in item.get("supporting_sentence_keys") or ()}
        unknown = names - contexts.keys()
        words = {name for name in unknown if _SUPPORT_WORD.fullmatch(name)}
        report.note("a supporting key names no sentence", location, len(unknown - words))
        where = tuple(span for name, span in contexts.items() if name in names)
        if where or words:
            evidence[key] = Evidence(response[key], where)
        else:
            report.note("a supported sentence has no support named", location)
    return tuple(evidence[key] for key in response if key in evidence)


# Columns of faithfulness, relevance and utilization.
JUDGES: dict[str, tuple[str, str, str | None]] = {
    "GPT-3.5": ("gpt3_adherence", "gpt3_context_relevance", "gpt35_utilization"),
    "RAGAS": ("ragas_faithfulness", "ragas_context_relevance", None),
    "TruLens": ("trulens_groundedness", "trulens_context_relevance", None),
}
COLUMNS = tuple(column for columns in JUDGES.values() for column in columns if column)


def read_published_scores(
    values: Mapping[str, Any], location: str, report: SourceReport
) -> tuple[PublishedScores, ...]:
    """Return the scores of each judge that has one for a row; a score outside [0, 1] is unknown."""

    def score(column: str | None) -> float | None:
        value = None if column is None else values.get(column)
        if value is None or math.isnan(value):
            return None
        if not 0 <= value <= 1:
            report.note(f"{column} lies outside [0, 1]", location)
            return None
        return float(value)

    published = (PublishedScores(judge, *map(score, columns)) for judge, columns in JUDGES.items())
    return tuple(
        s for s in published if (s.faithfulness, s.relevance, s.utilization) != (None,) * 3
    )
