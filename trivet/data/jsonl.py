"""Labelled JSONL: one object a line, plain or compressed (``.gz``, ``.xz``, ``.zst``).

::

    {"id", "question", "contexts": [str], "response",
     "labels": {"unsupported": [[start, end]] | null, "adherent": bool | null,
                "relevant": [[context, start, end]] | null, "utilized": likewise,
                "evidence": [{"response": [start, end],
                              "contexts": [[context, start, end]]}] | null,
                "relevance", "utilization", "completeness": float | null},
     "source", "group", "split", "generator", "weight"}

``null``, or a missing key, means unknown; ``[]`` means known to be none. Other keys are ignored. A
row that cannot be trusted is dropped and counted with its line number; the rest is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from trivet.data.grouping import digest
from trivet.data.json_lines import RowError, read_json_lines
from trivet.data.source_report import SourceReport
from trivet.records import (
    ContextSpan,
    Evidence,
    LabelledExample,
    Labels,
    RagExample,
    Span,
)

_Kind = TypeVar("_Kind")


def read_jsonl(path: Path) -> tuple[list[LabelledExample], SourceReport]:
    """Read a labelled JSONL file.

    Args:
        path: The file; its last suffix names the compression.

    Returns:
        The examples in the order of the file, and the account of what was read.

    Raises:
        DataError: The file does not exist, or its compression is damaged.
    """
    report = SourceReport(source=f"jsonl:{path}")
    examples = []
    for number, row in read_json_lines(path):
        report.rows += 1
        try:
            if isinstance(row, RowError):
                raise row
            examples.append(_labelled(row, path, number, report))
        except RowError as error:
            report.drop(str(error), f"line {number}")
    report.kept = len(examples)
    return examples, report


def spans_of(value: object, text: str, what: str) -> tuple[Span, ...] | None:
    """Check ``[[start, end]]`` against its text; ``None`` stays ``None``, empty spans go.

    Raises:
        RowError: The value has another shape, or a span leaves the text.
    """
    if value is None:
        return None
    return tuple(
        Span(start, end)
        for start, end in _numbers(value, 2, what)
        if _inside(start, end, text, what)
    )


def _labelled(
    row: Mapping[str, Any], path: Path, number: int, report: SourceReport
) -> LabelledExample:
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
        report.note("no group: the contexts stand for it", f"line {number}")
        group = digest(*contexts)
    source = _optional(row, "source", str) or path.name.split(".", 1)[0]
    name = row.get("id")
    weight = _number(row, "weight")
    if weight is not None and weight < 0:
        raise RowError("weight is negative")
    return LabelledExample(
        example=RagExample(
            question=question,
            contexts=tuple(contexts),
            response=response,
            id=f"{source}-{number}" if name is None else str(name),
        ),
        labels=_labels(_optional(row, "labels", dict) or {}, tuple(contexts), response),
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
    # Without a response there is nothing to be adherent, whatever the lists say.
    if response.strip():
        if adherent is None and unsupported is not None:
            adherent = not unsupported
        if adherent and unsupported is None:
            unsupported = ()
    return Labels(
        unsupported=unsupported,
        adherent=adherent,
        relevant=_context_spans(row.get("relevant"), contexts, "relevant"),
        utilized=_context_spans(row.get("utilized"), contexts, "utilized"),
        evidence=_evidence(row.get("evidence"), contexts, response),
        relevance=_share(row, "relevance"),
        utilization=_share(row, "utilization"),
        completeness=_share(row, "completeness"),
    )


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
        where = _context_spans(item.get("contexts", []), contexts, "evidence")
        if supported and where is not None:
            evidence.append(Evidence(supported[0], where))
    return tuple(evidence)


def _context_spans(
    value: object, contexts: tuple[str, ...], what: str
) -> tuple[ContextSpan, ...] | None:
    if value is None:
        return None
    spans = []
    for context, start, end in _numbers(value, 3, what):
        if not 0 <= context < len(contexts):
            raise RowError(f"{what} names a context that is not there")
        if _inside(start, end, contexts[context], what):
            spans.append(ContextSpan(context, start, end))
    return tuple(spans)


def _numbers(value: object, length: int, what: str) -> Iterator[list[int]]:
    if not isinstance(value, list):
        raise RowError(f"{what} is not a list")
    for item in value:
        if (
            not isinstance(item, list)
            or len(item) != length
            # bool is an int to Python, but no offset.
            or not all(type(number) is int for number in item)
        ):
            raise RowError(f"{what} holds something that is not {length} whole numbers")
        yield item


def _inside(start: int, end: int, text: str, what: str) -> bool:
    if not 0 <= start <= end <= len(text):
        raise RowError(f"{what} leaves its text")
    return start < end


def _optional(row: Mapping[str, Any], key: str, kind: type[_Kind]) -> _Kind | None:
    value = row.get(key)
    if value is not None and not isinstance(value, kind):
        raise RowError(f"{key} is not of type {kind.__name__}")
    return value


def _number(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if type(value) not in (int, float) or not math.isfinite(value):
        raise RowError(f"{key} is not a finite number")
    return float(value)


def _share(row: Mapping[str, Any], key: str) -> float | None:
    value = _number(row, key)
    if value is not None and not 0.0 <= value <= 1.0:
        raise RowError(f"{key} lies outside [0, 1]")
    return value
