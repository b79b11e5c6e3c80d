"""A log of spans as a log of examples, one for each trace.

The spans of a trace may be anywhere in the input, so their texts are held until it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast, get_args

from trivet.errors import DataError, ExampleError
from trivet.logs.log import Format, Log, SourceRow
from trivet.logs.otel import read_otel
from trivet.logs.shapes import SHAPES
from trivet.logs.trace_examples import (
    ReadSpans,
    TraceExample,
    TraceFormat,
    TraceSpan,
    trace_example,
)
from trivet.logs.trace_platforms import read_langfuse, read_langsmith

READERS: Mapping[TraceFormat, ReadSpans] = {
    "otel": read_otel,
    "openinference": read_otel,
    "phoenix": read_otel,
    "langfuse": read_langfuse,
    "langsmith": read_langsmith,
}
_SHOWN_NAMES = 8


class TraceLog(Log):
    """Examples in exported spans.

    Attributes:
        tool: Format of the spans.
        references: Examples read so far by the number of their row, without texts.
    """

    def __init__(self, source: str, tool: TraceFormat, encoding: str | None = None) -> None:
        """Find the files as `Log` does; their suffixes name the file formats."""
        super().__init__(source, encoding=encoding)
        self.tool = tool
        self.references: dict[int, TraceExample] = {}

    def rows(self) -> Iterator[SourceRow]:
        """Yield unreadable records, then one row for each trace, by its first span.

        Raises:
            DataError: A file breaks off; no trace was yielded then.
        """
        traces: dict[str, list[TraceSpan]] = {}
        number = 0
        for row in super().rows():
            try:
                for span in self._spans(row):
                    traces.setdefault(span.trace, []).append(span)
            except ExampleError as error:
                number += 1
                yield replace(row, number=number, fields=error)
        for name in list(traces):
            number += 1
            place = f"trace {name}"
            try:
                example = trace_example(traces.pop(name))
            except ExampleError as error:
                yield SourceRow(number, place, None, error)
                continue
            yield SourceRow(number, place, None, _fields(example))
            self.references[number] = replace(example, question="", documents=(), answer="")

    def _spans(self, row: SourceRow) -> list[TraceSpan]:
        if isinstance(row.fields, ExampleError):
            raise row.fields
        record = dict(row.fields)
        try:
            return list(READERS[self.tool](record))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            names = ", ".join(list(record)[:_SHOWN_NAMES]) or "nothing"
            raise ExampleError(
                f"holds no span of the format {self.tool} (found {names}); choose another "
                f"--format of {', '.join(READERS)}, or none for a log of answers",
                code="missing_field",
            ) from error


def open_log(source: str, format_: str | None = None, encoding: str | None = None) -> Log:
    """Return a log in a file format, in that of a tracing tool or in a shape of `SHAPES`.

    ``None`` and shapes mean the file format of the suffix.

    Raises:
        DataError: There are no such files, or the format is unknown.
    """
    if format_ in READERS:
        return TraceLog(source, cast(TraceFormat, format_), encoding)
    if format_ in SHAPES:
        return Log(source, encoding=encoding)
    known = get_args(Format)
    if format_ is not None and format_ not in known:
        names = ", ".join((*known, *READERS, *SHAPES))
        raise DataError(f"no format {format_!r}; there are {names}")
    return Log(source, cast(Format | None, format_), encoding=encoding)


def _fields(example: TraceExample) -> list[tuple[str, object]]:
    contexts = [{"text": document.text, "id": document.id} for document in example.documents]
    return [
        ("id", example.trace),
        ("question", example.question),
        ("contexts", contexts),
        ("response", example.answer),
        ("metadata", {"span_id": example.span}),
    ]
