"""Lines of a verdict file, and its formats by its ending.

A verdict::

    {"row": 7, "id": "q7", "faithfulness": 0.91, ...,    `Evaluation.to_dict()`
     "context_ids": ["doc-3", null],                     if the contexts have ids
     "metadata": {"model": "m-2"},                       if the row has such columns
     "texts": {"question", "contexts", "response"}}      if the run writes texts

A row without a verdict::

    {"row": 8, "id": "q8", "error": {"code", "message", "line"}, "metadata": {...}}

JSON lines are appended to; the other formats are made of the lines when all are there, and only
appear when they are complete. In Parquet each name of the metadata is a column.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trivet.errors import DataError, install_line
from trivet.heads import CONTEXT_HEADS
from trivet.interface import flat, replace_surrogates
from trivet.logs.column_mapping import LogRow
from trivet.records import Evaluation, FailedEvaluation, RagExample, to_json_text

if TYPE_CHECKING:
    import pyarrow


def check_format(out: Path) -> None:
    """Raise ``DataError`` for an unknown ending, or if the format's library is not installed."""
    ending = out.suffix.lower()
    if ending not in _WRITERS:
        raise DataError(
            f"{out}: verdicts are written as {', '.join(_WRITERS)}, by the ending of --out"
        )
    if ending in (".parquet", ".pq"):
        needs_pyarrow()


def lines_path(out: Path) -> Path:
    """Return the file that the lines of an output are appended to."""
    is_lines = _WRITERS.get(out.suffix.lower()) is None
    return out if is_lines else out.with_name(f"{out.name}.lines")


def convert(lines: Path, out: Path) -> None:
    """Write a file of verdict lines in the format of ``out``."""
    write = _WRITERS[out.suffix.lower()]
    if write is None:
        lines.replace(out)
        return
    new = out.with_name(f"{out.name}.new")
    try:
        write(lines, new)
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        new.replace(out)
    finally:
        new.unlink(missing_ok=True)


def _write_json(lines: Path, out: Path) -> None:
    with lines.open("rb") as source, out.open("wb") as file:
        file.write(b"[")
        for number, line in enumerate(source):
            file.write((b",\n" if number else b"\n") + line.rstrip())
        file.write(b"\n]\n")


def _write_csv(lines: Path, out: Path) -> None:
    names = _columns(lines)
    # A byte order mark makes Excel read UTF-8.
    with out.open("w", encoding="utf-8-sig", errors="backslashreplace", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in _rows(lines):
            writer.writerow({name: _cell(value) for name, value in row.items()})


def _rows(lines: Path) -> Iterator[dict[str, Any]]:
    with lines.open("rb") as file:
        yield from (flat(json.loads(line)) for line in file)


def _columns(lines: Path) -> list[str]:
    """Return the columns of all rows: the row, the fields of a verdict in order, then others."""
    names: dict[str, None] = {}
    for row in _rows(lines):
        names |= dict.fromkeys(row)
    order = ["row", *FIELDS]
    return [*filter(names.__contains__, order), *(name for name in names if name not in order)]


def _cell(value: Any) -> Any:
    """Return a value as a cell holds it; lists, objects, true and false are JSON."""
    is_nested = isinstance(value, list | Mapping | bool)
    return json.dumps(value, ensure_ascii=False) if is_nested else value


_ROWS = 1024  # rows in a row group
_INT64 = range(-(2**63), 2**63)


def needs_pyarrow() -> None:
    """Raise ``DataError`` if the package for Parquet is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise DataError(f"Parquet needs pyarrow; {install_line('files')}") from error


def write_parquet(lines: Path, out: Path) -> None:
    """Write a file of verdict lines as Parquet; a lone surrogate becomes U+FFFD.

    Each name of the metadata has its own column (``metadata.model``), of text if its values have
    several types. The lines are read twice, first to find the columns.
    """
    import pyarrow
    from pyarrow import parquet

    names, kinds = _parquet_columns(lines)
    schema = _schema(names, kinds)
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        records = (_row(record, kinds) for record in _records(lines))
        while batch := list(itertools.islice(records, _ROWS)):
            writer.write_batch(pyarrow.RecordBatch.from_pylist(batch, schema=schema))


def _records(lines: Path) -> Iterator[dict[str, Any]]:
    with lines.open("rb") as file:
        for line in file:
            # Only lines with lone surrogates contain such escapes.
            record: dict[str, Any] = json.loads(line)
            yield _without_surrogates(record) if b"\\ud" in line else record


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)[0]
    if isinstance(value, dict):
        return {name: _without_surrogates(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(member) for member in value]
    return value


def _parquet_columns(lines: Path) -> tuple[set[str], dict[str, str]]:
    """Return the fields of the lines, and the type of each metadata column."""
    names: set[str] = set()
    kinds: dict[str, str] = {}
    for record in _records(lines):
        names |= record.keys()
        for name, value in record.get("metadata", {}).items():
            kind = _kind(value)
            before = kinds.get(name, kind)
            if before != kind:
                kind = "float" if {before, kind} == {"int", "float"} else "text"
            kinds[name] = kind
    return names, kinds


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if value in _INT64 else "text"
    return "float" if isinstance(value, float) else "text"


def _row(record: dict[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    """Return a record with its metadata as columns."""
    for name, value in record.pop("metadata", {}).items():
        if kinds[name] == "text" and not isinstance(value, str):
            value = json.dumps(value)
        record[f"metadata.{name}"] = float(value) if kinds[name] == "float" else value
    return record


def _schema(names: set[str], kinds: Mapping[str, str]) -> pyarrow.Schema:
    import pyarrow as pa

    whole, number, text, truth = pa.int64(), pa.float64(), pa.string(), pa.bool_()
    span = [("start", whole), ("end", whole), ("text", text)]
    scores = [(name, number) for name in CONTEXT_HEADS]
    context_sentences = pa.list_(pa.struct([*span, *scores]))
    source = pa.struct([("context", whole), *span[:2], ("score", number)])
    evidence = ("evidence", pa.list_(source))
    sentence = [("support", number), ("supported", truth), evidence, ("abstains", truth)]
    context_span = pa.struct([("context", whole), *span[:2]])
    words = [(name, text) for name in ("reason", "category", "subcategory")]
    places = [(name, context_span) for name in ("found_at", "instead")]
    spans = pa.list_(pa.struct([*span, ("probability", number), *words, *places]))
    mark = pa.struct([*span[:2], ("context", whole), ("supported", truth)])
    types = {
        "row": whole,
        "id": text,
        "error": pa.struct([("code", text), ("message", text), ("line", whole)]),
        "adherent": truth,
        "abstains": truth,
        "language": text,
        **dict.fromkeys(("unsupported", "to_check"), spans),
        "sentences": pa.list_(pa.struct([*span, *sentence])),
        "contexts": pa.list_(
            pa.struct([*scores, ("sentences", context_sentences), ("id", text), ("title", text)])
        ),
        "context_ids": pa.list_(text),
        "citations": pa.struct(
            [("marks", pa.list_(mark)), ("precision", number), ("recall", number)]
        ),
        "texts": pa.struct([("question", text), ("contexts", pa.list_(text)), ("response", text)]),
    }
    counts = ("windows", "window_size", "cut_question_tokens", "response_chunks")
    types |= dict.fromkeys((*counts, "replaced_characters"), whole) | {"revision": text}
    by_kind = {"int": whole, "float": number, "bool": truth, "text": text}
    there = [name for name in ("row", *FIELDS, "error") if name in names and name != "metadata"]
    columns = [(name, types.get(name, number)) for name in there]
    columns += [(f"metadata.{name}", by_kind[kinds[name]]) for name in sorted(kinds)]
    return pa.schema(columns or [("row", whole)])


_WRITERS: Mapping[str, Callable[[Path, Path], None] | None] = {
    ".jsonl": None,
    ".json": _write_json,
    ".csv": _write_csv,
    ".parquet": write_parquet,
    ".pq": write_parquet,
    ".ndjson": None,
    ".jl": None,
}


TEXT_FIELDS = ("question", "contexts", "response")
_EVALUATION = tuple(field.name for field in dataclasses.fields(Evaluation))
FIELDS = (*_EVALUATION, "context_ids", "metadata", "texts")
"""Names that ``--fields`` accepts; ``row`` and ``error`` are in every line."""


def check_fields(fields: Sequence[str]) -> None:
    """Raise ``DataError`` if verdicts have no such field."""
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        names = ", ".join(unknown)
        raise DataError(f"no field {names} in a verdict; there are {', '.join(FIELDS)}")


def verdict_line(
    row: LogRow,
    result: Evaluation | FailedEvaluation,
    *,
    fields: Sequence[str] | None = None,
    texts: bool = False,
) -> bytes:
    """Return one line of JSON in UTF-8, with the chosen fields of the verdict or all."""
    record: dict[str, Any] = {"row": row.number}
    if isinstance(result, Evaluation):
        record |= result.to_dict()
    else:
        record["id"] = result.id
        error: dict[str, Any] = {"code": result.code, "message": result.message}
        if row.line is not None:
            error["line"] = row.line
        record["error"] = error
    if row.context_ids is not None:
        record["context_ids"] = list(row.context_ids)
    if row.metadata:
        record["metadata"] = dict(row.metadata)
    if texts and isinstance(row.example, RagExample):
        record["texts"] = {name: getattr(row.example, name) for name in TEXT_FIELDS}
    if fields is not None:
        kept = ("row", "error", *fields)
        record = {name: value for name, value in record.items() if name in kept}
    return to_json_text(record).encode() + b"\n"
