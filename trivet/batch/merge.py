"""Merging the shards of a log into the file that one run would have written."""

from __future__ import annotations

import contextlib
import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from trivet.batch.out_formats import check_format, convert, lines_path
from trivet.batch.output import Output, no_room
from trivet.batch.settings import parse_shard
from trivet.errors import DataError
from trivet.report.run_record import Progress, RunRecord, read_record, record_path, write_record
from trivet.report.run_tally import RunTally

_ROW = re.compile(rb'\{"row": ([0-9]+)')
_PIECE = 1 << 20  # bytes written and synced at once


def merge(shards: Sequence[Path], out: Path) -> RunRecord:
    """Merge the verdict files of all shards of one run, in the order of the log.

    Raises:
        DataError: A shard is missing, given twice, unfinished or of another run; or a row is
            missing or repeated.
        OutputFullError: The disk is full.
    """
    check_format(out)
    if out.exists() and out.stat().st_size:
        raise DataError(f"{out}: exists already; choose another --out, or remove it")
    records = [(shard, _record(shard)) for shard in shards]
    whole = _check(records)
    lines = out.with_name(f"{out.name}.lines")
    try:
        with Output(lines) as output, no_room(out):
            output.cut(0)
            _interleave(shards, output, whole.progress.rows)
            whole = replace(whole, progress=replace(whole.progress, bytes=output.size))
            convert(lines, out)
            write_record(out, whole)
    finally:
        lines.unlink(missing_ok=True)
    return whole


def _interleave(shards: Sequence[Path], output: Output, rows: int) -> None:
    """Write the lines of all shards in the order of their rows, each row from 1 on once."""
    piece: list[bytes] = []
    held = last = 0
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(shard.open("rb")) for shard in shards]
        for row, line in heapq.merge(*map(_numbered_lines, files)):
            if row <= last:
                raise DataError(f"row {row} is in the files twice")
            if row > last + 1:
                raise DataError(f"row {last + 1} is in none of the files")
            piece.append(line)
            held, last = held + len(line), row
            if held >= _PIECE:
                output.append(b"".join(piece))
                piece, held = [], 0
    output.append(b"".join(piece))
    if last != rows:
        raise DataError(f"rows {last + 1} to {rows} are in none of the files")


def _record(shard: Path) -> RunRecord:
    if lines_path(shard) != shard:
        raise DataError(f"{shard}: shards are merged from JSON lines; give them --out NAME.jsonl")
    record = read_record(shard)
    if record is None:
        raise DataError(f"{shard}: its record {record_path(shard).name} is missing")
    if not record.finished:
        raise DataError(f"{shard}: its run is not finished; give its command again")
    if shard.stat().st_size != record.progress.bytes:
        promised = record.progress.bytes
        raise DataError(f"{shard}: does not have the {promised} bytes that its run wrote")
    return record


def _check(records: Sequence[tuple[Path, RunRecord]]) -> RunRecord:
    """Return the record of the merged run, if the files are all shards of one run, each once."""
    (first, kept), *others = records
    for path, record in others:
        theirs = replace(record, settings=record.settings | {"shard": kept.settings["shard"]})
        if changes := kept.changes(theirs):
            raise DataError(f"{path} is of another run than {first}: {'; '.join(changes)}")
    shards = [parse_shard(record.settings["shard"]) for _, record in records]
    count = shards[0].count
    given = sorted(shard.number for shard in shards)
    if {shard.count for shard in shards} != {count} or given != list(range(1, count + 1)):
        names = ", ".join(f"{shard.number}/{shard.count}" for shard in shards)
        raise DataError(
            f"the files are the shards {names}; give each from 1/{count} to {count}/{count} once"
        )
    return replace(
        kept,
        started=min(record.started for _, record in records),
        settings=kept.settings | {"shard": "1/1"},
        progress=Progress(kept.progress.rows, kept.progress.blocks),
        counts=RunTally.total(record.counts for _, record in records),
    )


def _numbered_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    for line in file:
        found = _ROW.match(line)
        if found is None:
            raise DataError(f"{file.name}: a line does not begin with its row; it was changed")
        yield int(found[1]), line
