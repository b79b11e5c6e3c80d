"""A run: a log in, a verdict file out, which can be killed at any moment and goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import trivet
from trivet.batch.blocks import block_characters, judge_blocks
from trivet.batch.errors import RunChangedError
from trivet.batch.output import Output, no_room
from trivet.batch.run_record import (
    Progress,
    RunRecord,
    read_record,
    record_path,
    write_record,
)
from trivet.batch.settings import RunSettings
from trivet.batch.tally import Tally
from trivet.batch.verdict_parquet import is_parquet, needs_pyarrow, write_parquet
from trivet.bundle.manifest import MANIFEST_NAME
from trivet.data.logs.column_mapping import LogRow, read_rows
from trivet.data.logs.log import STDIN, Log
from trivet.evaluation.evaluator import Evaluator

logger = logging.getLogger(__name__)

_WAY_OUT = "choose another --out, or begin anew with --restart"

OnBlock = Callable[[Tally, int], None]
"""Told after each block what was found so far, and how many rows of the log were read."""


@dataclass(frozen=True)
class Going:
    """How a run deals with what is there already.

    Attributes:
        restart: Begin anew, whatever the output holds.
        although_changed: Go on although input, bundle or settings are not what they were.
        strict: Stop at the first row that cannot be judged.
    """

    restart: bool = False
    although_changed: bool = False
    strict: bool = False


def judge_to_stream(
    evaluator: Evaluator,
    log: Log,
    sink: IO[bytes],
    settings: RunSettings,
    on_block: OnBlock,
    *,
    strict: bool = False,
) -> Tally:
    """Judge a log into a stream, such as stdout; nothing of it can be resumed.

    Raises:
        DataError: The log cannot be read, or breaks off; what stands before was written.
        StrictError: A row could not be judged, and ``strict`` was asked for.
    """
    tally, read = Tally(), 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(log))
        rows, most = read_rows(log.rows(), settings.columns()), block_characters(evaluator)
        blocks = judge_blocks(evaluator, rows, settings, most, strict=strict)
        for block in stack.enter_context(contextlib.closing(blocks)):
            sink.writelines(block.lines)
            sink.flush()
            for result in block.results:
                tally.add(result)
            read += block.rows
            on_block(tally, read)
            if block.stop is not None:
                raise block.stop
    return tally


def judge_to_file(
    evaluator: Evaluator,
    log: Log,
    out: Path,
    settings: RunSettings,
    on_block: OnBlock,
    going: Going = Going(),
) -> RunRecord:
    """Judge a log into a file, or go on where a run of the same log stopped.

    Args:
        evaluator: The judge.
        log: The rows.
        out: The verdict file; Parquet where its suffix says so, else JSON lines. Its record stands
            beside it.
        settings: What is judged, and what is written of it.
        on_block: Told how far it is.
        going: What to do about an output that is there.

    Returns:
        The record of the finished run.

    Raises:
        DataError: The log cannot be read, or breaks off; the output cannot be written.
        OutputLockedError: Another process writes the output.
        OutputFullError: The disk is full; the run can be resumed.
        RunChangedError: The output belongs to another run.
        StrictError: A row could not be judged, and ``going.strict`` was asked for.
    """
    if is_parquet(out):
        needs_pyarrow()
    # Parquet has its index at its end and cannot be appended to: it is made of the lines at last.
    lines = out.with_name(f"{out.name}.lines") if is_parquet(out) else out
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(log))
        rows = read_rows(log.rows(), settings.columns())  # looks at the first before it touches out
        output = stack.enter_context(Output(lines))
        stack.enter_context(no_room(out))
        record = _begin(_describe(evaluator, log, settings), out, output, going)
        if not record.finished:
            output.cut(record.progress.bytes)
            write_record(out, record)
            _skip(rows, record.progress.rows, log.source)
            _append(evaluator, rows, settings, record, out, output, going.strict, on_block)
            if lines != out:
                write_parquet(lines, out)
            record.finished = True
            write_record(out, record)
        if lines != out:
            lines.unlink(missing_ok=True)
    return record


def _append(
    evaluator: Evaluator,
    rows: Iterable[LogRow],
    settings: RunSettings,
    record: RunRecord,
    out: Path,
    output: Output,
    strict: bool,
    on_block: OnBlock,
) -> None:
    """Judge what is left, block by block; ``record`` follows."""
    done = record.progress
    blocks = judge_blocks(
        evaluator,
        rows,
        settings,
        record.block_characters,
        first_block=done.blocks,
        strict=strict,
    )
    with contextlib.closing(blocks):
        for block in blocks:
            if block.lines:
                output.append(b"".join(block.lines))
            if block.stop is not None:
                # What was written of its block is for the reader; it is judged again.
                raise block.stop
            for result in block.results:
                record.counts.add(result)
            done = Progress(done.rows + block.rows, done.blocks + 1, output.size)
            record.progress = done
            if block.lines:
                write_record(out, record)
            on_block(record.counts, done.rows)


def _skip(rows: Iterable[LogRow], count: int, source: str) -> None:
    """Pass over the rows that were judged before."""
    found = sum(1 for _ in itertools.islice(rows, count))
    if found < count:
        raise RunChangedError(
            f"{source}: has {found} rows, but {count} of it were judged; begin anew with --restart"
        )


def _describe(evaluator: Evaluator, log: Log, settings: RunSettings) -> RunRecord:
    """Return the record of a run that has not begun."""
    bundle = evaluator.bundle
    manifest = (bundle.folder / MANIFEST_NAME).read_bytes()
    return RunRecord(
        trivet=trivet.__version__,
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        input={
            "path": STDIN if log.source == STDIN else str(Path(log.source).resolve()),
            "bytes": log.size,
            "sha256": log.sha256(),
        },
        bundle={
            "folder": str(bundle.folder.resolve()),
            "name": bundle.info.name,
            "manifest_sha256": hashlib.sha256(manifest).hexdigest(),
            "thresholds": dataclasses.asdict(bundle.info.thresholds),
        },
        backend={"name": evaluator.backend_name, "precision": evaluator.precision},
        settings=settings.to_dict(),
        block_characters=block_characters(evaluator),
    )


def _begin(now: RunRecord, out: Path, output: Output, going: Going) -> RunRecord:
    """Return the run that is to go on, or ``now`` where it is a new one.

    Raises:
        RunChangedError: Something else stands there.
    """
    before = None if going.restart else read_record(out)
    if before is None:
        if not going.restart and out.exists() and out.stat().st_size:
            raise RunChangedError(
                f"{out}: is there already, without the record of its run ({record_path(out).name});"
                " choose another --out, or replace it with --restart"
            )
        return now
    is_made = output.path != out and before.finished and out.exists()  # of lines that are gone
    if not output.size and not is_made:
        logger.info("%s: nothing was judged yet, or it was removed; the run begins anew", out)
        return now
    promised = before.progress.bytes
    if not is_made and (output.size < promised or (before.finished and output.size > promised)):
        raise RunChangedError(
            f"{output.path}: has {output.size} bytes, but {promised} were written; {_WAY_OUT}"
        )
    now.block_characters = before.block_characters  # else the shards of a log would not meet
    changes = before.changes(now)
    if not changes:
        return before
    if not going.although_changed or is_made:
        raise RunChangedError(
            f"{out}: was begun otherwise: {'; '.join(changes)}; {_WAY_OUT}"
            + ("" if is_made else ", or go on all the same with --although-changed")
        )
    now.started, now.progress, now.counts = before.started, before.progress, before.counts
    now.changed = [*before.changed, *changes]
    return now
