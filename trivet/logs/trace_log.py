"""A log of spans as a log of examples, one for each trace.

The spans of a trace may be anywhere in the input, so their texts are held until it ends.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast, get_args

from trivet.errors import DataError, ExampleError
from trivet.logs.column_mapping import Columns
from trivet.logs.log import Format, Log, SourceRow
from trivet.logs.recognition import is_plain
from trivet.logs.shapes import SHAPES
from trivet.logs.trace_examples import (
    KINDS,
    ReadSpans,
    TraceExample,
    TraceFormat,
    TraceSpan,
    trace_example,
)
from trivet.logs.trace_platforms import read_langfuse, read_langsmith, read_otel

logger = logging.getLogger(__name__)

READERS: Mapping[TraceFormat, ReadSpans] = {
    "otel": read_otel,
    "openinference": read_otel,
    "phoenix": read_otel,
    "langfuse": read_langfuse,
    "langsmith": read_langsmith,
}
_SHOWN_NAMES = 8


def tool_of(record: Mapping[str, Any]) -> TraceFormat | None:
    """Return the format of the spans that a record holds by its names; ``None`` if it has none."""
    for name in ("data", "runs"):  # an answer of an API
        inner = record.get(name)
        if isinstance(inner, list) and inner and isinstance(inner[0], Mapping):
            return tool_of(inner[0])
    if "resourceSpans" in record:
        return "otel"
    context = record.get("context")
    if "context.span_id" in record or (isinstance(context, Mapping) and "span_id" in context):
        return "phoenix"
    if {"run_type", "trace_id"} <= record.keys():
        return "langsmith"
    trace = record.get("trace")
    around = {**record, **trace} if isinstance(trace, Mapping) else record
    parts = around.get("observations")
    if isinstance(parts, list) and parts and isinstance(parts[0], Mapping):
        return "langfuse"
    is_part = str(record.get("type")).lower() in (*KINDS, "event", "tool", "embedding")
    return "langfuse" if is_part and {"trace_id", "traceId"} & record.keys() else None


class TraceLog(Log):
    """Examples in exported spans, or those of any other log as they are.

    Attributes:
        tool: Format of the spans; ``None`` until the first record shows whether it holds any.
    """

    def __init__(
        self,
        source: str,
        tool: TraceFormat | None = None,
        format: Format | None = None,  # noqa: A002
        encoding: str | None = None,
    ) -> None:
        """Find the files as `Log` does; by default their suffixes name the file formats."""
        super().__init__(source, format, encoding=encoding)
        self.tool = tool

    def rows(self) -> Iterator[SourceRow]:
        """Yield unreadable records, then one row for each trace, by its first span.

        Raises:
            DataError: A file breaks off; no trace was yielded then.
        """
        records = super().rows()
        if self.tool is None:
            first = list(itertools.islice(records, 1))
            for row in first:
                if not isinstance(row.fields, ExampleError) and not is_plain(row, Columns()):
                    self.tool = tool_of(dict(row.fields))
            records = itertools.chain(first, records)
            if self.tool is None:
                yield from records
                return
            logger.info("read as spans (--format %s): one row for each trace", self.tool)
        yield from self._examples(records, READERS[self.tool])

    def _examples(self, records: Iterable[SourceRow], read: ReadSpans) -> Iterator[SourceRow]:
        traces: dict[str, list[TraceSpan]] = {}
        number = 0
        for row in records:
            try:
                for span in self._spans(row, read):
                    traces.setdefault(span.trace, []).append(span)
            except ExampleError as error:
                number += 1
                yield replace(row, number=number, fields=error)
        for name in list(traces):
            number += 1
            where = f"trace {name}"
            try:
                example = trace_example(traces.pop(name))
            except ExampleError as error:
                yield SourceRow(number, where, None, error)
                continue
            yield SourceRow(number, where, None, _fields(example))

    def _spans(self, row: SourceRow, read: ReadSpans) -> list[TraceSpan]:
        if isinstance(row.fields, ExampleError):
            raise row.fields
        record = dict(row.fields)
        try:
            return list(read(record))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            names = ", ".join(list(record)[:_SHOWN_NAMES]) or "nothing"
            raise ExampleError(
                f"holds no span of the format {self.tool} (found {names}); choose another "
                f"--format of {', '.join(READERS)}, or none for a log of answers",
                code="missing_field",
            ) from error


def open_log(
    source: str,
    format_: str | None = None,
    encoding: str | None = None,
    *,
    is_mapped: bool = False,
) -> Log:
    """Return a log in a file format, in that of a tracing tool or in a shape of `SHAPES`.

    ``None`` and shapes mean the file format of the suffix. Without a tool and a shape, and unless
    the fields ``is_mapped``, the first record shows whether the file holds spans.

    Raises:
        DataError: There are no such files, or the format is unknown.
    """
    if format_ in READERS:
        return TraceLog(source, cast(TraceFormat, format_), encoding=encoding)
    if format_ in SHAPES:
        return Log(source, encoding=encoding)
    known = get_args(Format)
    if format_ is not None and format_ not in known:
        names = ", ".join((*known, *READERS, *SHAPES))
        raise DataError(f"no format {format_!r}; there are {names}")
    if is_mapped:
        return Log(source, cast(Format | None, format_), encoding=encoding)
    return TraceLog(source, format=cast(Format | None, format_), encoding=encoding)


def _fields(example: TraceExample) -> list[tuple[str, object]]:
    contexts = [{"text": document.text, "id": document.id} for document in example.documents]
    return [
        ("id", example.trace),
        ("question", example.question),
        ("contexts", contexts),
        ("response", example.answer),
        ("metadata", {"span_id": example.span}),
    ]
