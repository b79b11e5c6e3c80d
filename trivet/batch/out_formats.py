"""Formats of a verdict file, by its ending.

JSON lines are appended to; the other formats are made of the lines when all are there, and only
appear when they are complete.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trivet.batch.verdict_lines import FIELDS
from trivet.batch.verdict_parquet import needs_pyarrow, write_parquet
from trivet.data.files.xlsx_rows import needs_openpyxl
from trivet.errors import DataError
from trivet.interface import flat

_LONGEST_CELL = 32_767  # characters, by Excel's own limit
_MOST_ROWS = 1_048_576
_ILLEGAL = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\ufffd"
)


def check_format(out: Path) -> None:
    """Raise ``DataError`` for an unknown ending, or if the format's library is not installed."""
    ending = out.suffix.lower()
    if ending not in _WRITERS:
        raise DataError(
            f"{out}: verdicts are written as {', '.join(_WRITERS)}, by the ending of --out"
        )
    if ending in (".parquet", ".pq"):
        needs_pyarrow()
    if ending == ".xlsx":
        needs_openpyxl()


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


def _write_xlsx(lines: Path, out: Path) -> None:
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    names = _columns(lines)
    book = Workbook(write_only=True)
    sheet = book.create_sheet("verdicts")
    sheet.freeze_panes = "A2"
    sheet.append(names)
    for number, row in enumerate(_rows(lines), start=2):
        if number > _MOST_ROWS:
            raise DataError(
                f"{out}: a sheet holds {_MOST_ROWS} rows and the log has more; write .csv instead"
            )
        cells = []
        for name in names:
            value = _cell(row.get(name))
            if isinstance(value, str):
                cell = WriteOnlyCell(sheet, _fitting(value).translate(_ILLEGAL))
                cell.data_type = "s"  # else text that begins with "=" becomes a formula
                cells.append(cell)
            else:
                cells.append(value)
        sheet.append(cells)
    book.save(out)


def _fitting(text: str) -> str:
    """Cut a text that is too long for a cell, and say so in the cell."""
    if len(text) <= _LONGEST_CELL:
        return text
    note = f"... ({len(text)} characters; all are in .csv or .jsonl)"
    return text[: _LONGEST_CELL - len(note)] + note


def _rows(lines: Path) -> Iterator[dict[str, Any]]:
    with lines.open("rb") as file:
        yield from (flat(json.loads(line)) for line in file)


def _columns(lines: Path) -> list[str]:
    """Return the columns of all rows: the row, the fields of a verdict in order, then others."""
    found: dict[str, None] = {}
    for row in _rows(lines):
        found |= dict.fromkeys(row)
    order = ["row", *FIELDS]
    return [*filter(found.__contains__, order), *(name for name in found if name not in order)]


def _cell(value: Any) -> Any:
    """Return a value as a cell holds it; lists, objects, true and false are JSON."""
    is_nested = isinstance(value, list | Mapping | bool)
    return json.dumps(value, ensure_ascii=False) if is_nested else value


_WRITERS: Mapping[str, Callable[[Path, Path], None] | None] = {
    ".jsonl": None,
    ".json": _write_json,
    ".csv": _write_csv,
    ".xlsx": _write_xlsx,
    ".parquet": write_parquet,
    ".pq": write_parquet,
    ".ndjson": None,
    ".jl": None,
}
