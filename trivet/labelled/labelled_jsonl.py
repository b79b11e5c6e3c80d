"""Labelled JSONL: one object per line, plain or compressed (``.gz``, ``.xz``, ``.zst``).

::

    {"id", "question", "contexts": [str], "response",
     "labels": {"unsupported": [[start, end]] | null, "adherent": bool | null,
                "contradicted": [[start, end]] | null,
                "relevant": [[context, start, end]] | null, "utilized": likewise,
                "evidence": [{"response": [start, end],
                              "contexts": [[context, start, end]]}] | null,
                "relevance", "utilization", "completeness": float | null},
     "source", "group", "split", "generator", "weight", "relation"}

``null`` or a missing key means unknown; ``[]`` means known to be none. ``contradicted`` are those
of the unsupported spans that the contexts contradict; they do not mention the others. For a
response with a verdict alone ``relation`` says it: "refute" or "neutral". Other keys are ignored. A
row that cannot be trusted is dropped and counted with its line number. Overlapping spans of one
kind are merged, and the report counts them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from trivet.labelled.grouping import digest
from trivet.labelled.source_files import read_json_lines
from trivet.labelled.source_report import RowError, SourceReport
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

_Kind = TypeVar("_Kind")


def read_jsonl(path: Path) -> tuple[list[LabelledExample], SourceReport]:
    """Read a labelled JSONL file; its last suffix names the compression.

    Raises:
        DataError: The file does not exist, or its compression is damaged.
    """
    pairs, report = read_pairs(path)
    return [example for _, example in pairs], report


def read_pairs(path: Path) -> tuple[list[tuple[dict[str, Any], LabelledExample]], SourceReport]:
    """Read the rows of a labelled JSONL file, each as it is written and as an example.

    Raises:
        DataError: As by ``read_jsonl``.
    """
    report = SourceReport(source=f"jsonl:{path}")
    lines = ((f"line {number}", row) for number, row in read_json_lines(path))
    written: list[dict[str, Any]] = []

    def read(row: dict[str, Any], location: str) -> LabelledExample:
        example = parse_row(row, path.name.split(".", 1)[0], location, report)
        written.append(row)
        return example

    examples = report.collect(lines, read)
    return list(zip(written, examples, strict=True)), report


def to_row(labelled: LabelledExample) -> dict[str, Any]:
    """Return an example as an object that ``read_jsonl`` reads as the same example."""
    example, labels = labelled.example, labelled.labels
    known: dict[str, Any] = {}
    for name in ("unsupported", "contradicted"):
        if (response_spans := getattr(labels, name)) is not None:
            known[name] = [[span.start, span.end] for span in response_spans]
    for name in ("relevant", "utilized"):
        if (spans := getattr(labels, name)) is not None:
            known[name] = _lists(spans)
    if labels.evidence is not None:
        known["evidence"] = [
            {"response": [e.response.start, e.response.end], "contexts": _lists(e.contexts)}
            for e in labels.evidence
        ]
    for name in ("adherent", "relevance", "utilization", "completeness"):
        if (value := getattr(labels, name)) is not None:
            known[name] = value
    row = {
        "id": example.id,
        "question": example.question,
        "contexts": list(example.contexts),
        "response": example.response,
        "labels": known,
        "source": labelled.source,
        "group": labelled.group,
        "generator": labelled.generator,
        "split": labelled.split,
        "weight": labelled.weight,
    }
    return {name: value for name, value in row.items() if value is not None}


def _lists(spans: Iterable[ContextSpan]) -> list[list[int]]:
    return [[span.context, span.start, span.end] for span in spans]


def parse_row(
    row: Mapping[str, Any], default_source: str, location: str, report: SourceReport
) -> LabelledExample:
    """Return the example of a row; ``RowError`` if it cannot be trusted.

    ``location`` is that of the row, for the report and for the name of a row without ``id``.
    """
    contexts = row.get("contexts")
    if not isinstance(contexts, list) or not all(isinstance(text, str) for text in contexts):
        raise RowError("contexts is not a list of strings")
    if not any(text.strip() for text in contexts):
        raise RowError("no context holds any text")
    question = _optional(row, "question", str) or ""
    response = _optional(row, "response", str) or ""
    if not question.strip() and not response.strip():
        raise RowError("neither question nor response holds any text")

    group = _optional(row, "group", str)
    if not group:
        report.note("no group: a digest of the contexts is used", location)
        group = digest(*contexts)
    source = _optional(row, "source", str) or default_source
    name = str(row["id"]) if row.get("id") is not None else location.replace("line ", f"{source}-")
    weight = _number(row, "weight")
    labels = _labels(_optional(row, "labels", dict) or {}, tuple(contexts), response)
    if labels.adherent is False and labels.unsupported is None and labels.contradicted is None:
        known = {"refute": (Span(0, len(response)),), "neutral": ()}
        labels = replace(labels, contradicted=known.get(str(row.get("relation"))))
    return LabelledExample(
        example=RagExample(question, tuple(contexts), response, name),
        labels=_merged(labels, location, report),
        source=source,
        group=group,
        generator=_optional(row, "generator", str),
        split=_optional(row, "split", str),
        weight=1.0 if weight is None else weight,
    )


def _labels(row: Mapping[str, Any], contexts: tuple[str, ...], response: str) -> Labels:
    unsupported = spans_of(row.get("unsupported"), response, "unsupported")
    adherent = _optional(row, "adherent", bool)
    if adherent is not None and unsupported is not None and adherent == bool(unsupported):
        raise RowError("adherent and unsupported contradict each other")
    # An empty response is neither adherent nor not, whatever the lists say.
    if response.strip():
        if adherent is None and unsupported is not None:
            adherent = not unsupported
        if adherent and unsupported is None:
            unsupported = ()
    return Labels(
        unsupported=unsupported,
        adherent=adherent,
        contradicted=spans_of(row.get("contradicted"), response, "contradicted"),
        relevant=context_spans_of(row.get("relevant"), contexts, "relevant"),
        utilized=context_spans_of(row.get("utilized"), contexts, "utilized"),
        evidence=_evidence(row.get("evidence"), contexts, response),
        relevance=_number(row, "relevance", max_value=1),
        utilization=_number(row, "utilization", max_value=1),
        completeness=_number(row, "completeness", max_value=1),
    )


def _merged(labels: Labels, location: str, report: SourceReport) -> Labels:
    """Merge overlapping spans, so that a character counts once, and note them in the report."""
    parts: dict[str, Any] = {}
    if labels.unsupported is not None:
        parts["unsupported"] = merge_overlapping(labels.unsupported)
        supported = [evidence.response for evidence in labels.evidence or ()]
        pairs = itertools.product(supported, labels.unsupported)
        overlapping = sum(a.start < b.end and b.start < a.end for a, b in pairs)
        report.note("evidence for an unsupported span is ignored", location, overlapping)
    for name in ("relevant", "utilized"):
        spans = getattr(labels, name)
        if spans is not None:
            parts[name] = merge_overlapping_contexts(spans)
    for name, merged in parts.items():
        gone = len(getattr(labels, name)) - len(merged)
        report.note(f"overlapping {name} spans were merged", location, gone)
    return replace(labels, **parts)


def _evidence(
    value: object, contexts: tuple[str, ...], response: str
) -> tuple[Evidence, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise RowError("evidence is not a list of objects")
    evidence = []
    for item in value:
        supported = spans_of([item.get("response")], response, "evidence")
        named = item.get("contexts", [])
        where = context_spans_of(named, contexts, "evidence")
        # If only empty spans are named, the place of the support is unknown.
        if supported and where is not None and (where or not named):
            evidence.append(Evidence(supported[0], where))
    return tuple(evidence)


def _optional(row: Mapping[str, Any], key: str, kind: type[_Kind]) -> _Kind | None:
    value = row.get(key)
    if value is not None and not isinstance(value, kind):
        raise RowError(f"{key} is not of type {kind.__name__}")
    return value


def _number(row: Mapping[str, Any], key: str, max_value: float = math.inf) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if type(value) not in (int, float) or not math.isfinite(value):
        raise RowError(f"{key} is not a finite number")
    if not 0.0 <= value <= max_value:
        raise RowError(f"{key} lies outside [0, 1]" if max_value == 1 else f"{key} is negative")
    return float(value)


def spans_of(value: object, text: str, what: str) -> tuple[Span, ...] | None:
    """Check ``[[start, end]]`` against its text; ``None`` stays, empty spans are left out."""
    if value is None:
        return None
    return tuple(Span(start, end) for _, start, end in _checked(value, [text], what, 2))


def context_spans_of(
    value: object, contexts: Sequence[str], what: str
) -> tuple[ContextSpan, ...] | None:
    """Check ``[[context, start, end]]`` against the contexts; otherwise as ``spans_of``."""
    if value is None:
        return None
    return tuple(ContextSpan(*numbers) for numbers in _checked(value, contexts, what, 3))


def merge_overlapping(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Sort spans and merge those that share characters; adjacent spans stay separate."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return tuple(merged)


def merge_overlapping_contexts(spans: Sequence[ContextSpan]) -> tuple[ContextSpan, ...]:
    """Sort and merge the spans of each context."""
    merged: list[ContextSpan] = []
    for context in sorted({span.context for span in spans}):
        inside = [Span(span.start, span.end) for span in spans if span.context == context]
        merged += [ContextSpan(context, span.start, span.end) for span in merge_overlapping(inside)]
    return tuple(merged)


def _checked(
    value: object, texts: Sequence[str], what: str, length: int
) -> Iterator[tuple[int, int, int]]:
    """Yield context, start and end of the spans that are not empty; others raise ``RowError``."""
    if not isinstance(value, list):
        raise RowError(f"{what} is not a list")
    for item in value:
        # A bool is an int in Python, but not an offset.
        whole = isinstance(item, list) and all(type(number) is int for number in item)
        if not whole or len(item) != length:
            raise RowError(f"{what} holds something that is not {length} whole numbers")
        context, start, end = item if length == 3 else (0, *item)
        if not 0 <= context < len(texts):
            detail = f"context {context} of {len(texts)}, counted from 0"
            raise RowError(f"{what} names a context that is not there", detail)
        size = len(texts[context])
        if not 0 <= start <= end <= size:
            raise RowError(f"{what} leaves its text", f"[{start}, {end}) of {size} characters")
        if start < end:
            yield context, start, end
