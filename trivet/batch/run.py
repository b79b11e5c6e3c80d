"""Runs: a log in, a verdict file out. A run can be killed at any moment and resumed."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import trivet
from trivet.batch.blocks import block_characters, evaluate_blocks
from trivet.batch.out_formats import check_format, convert, lines_path
from trivet.batch.output import EmptyInputError, RunChangedError, raise_on_full_disk
from trivet.batch.resumable_jsonl import ResumableJsonl
from trivet.batch.run_settings import RunSettings
from trivet.bundle.manifest import MANIFEST_NAME
from trivet.bundle.scores import error_rates
from trivet.evaluation.evaluator import Evaluator
from trivet.logs.column_mapping import LogRow
from trivet.logs.log import STDIN, Log
from trivet.logs.recognition import read_rows
from trivet.report.run_record import Progress, RunRecord, read_record, record_path
from trivet.report.run_tally import RunTally

logger = logging.getLogger(__name__)

_WAY_OUT = "choose another --out or start over with --restart"

OnBlock = Callable[[RunTally], None]
"""Called after each block with the counts so far."""


@dataclass(frozen=True)
class ResumePolicy:
    """Treatment of an existing output."""

    restart: bool = False  # start over, whatever the output contains
    force: bool = False  # resume even if input, bundle or settings have changed


def evaluate_to_stream(
    evaluator: Evaluator,
    log: Log,
    sink: IO[bytes],
    settings: RunSettings,
    on_block: OnBlock,
) -> RunTally:
    """Evaluate a log into a stream such as stdout, which cannot be resumed.

    Raises:
        DataError: The log cannot be read, or breaks off; the rows before were written.
    """
    tally = RunTally()
    with contextlib.closing(log):
        rows, most = rows_of_log(log, settings), block_characters(evaluator)
        blocks = evaluate_blocks(evaluator, rows, settings, most)
        with contextlib.closing(blocks):
            for block in blocks:
                sink.writelines(block.lines)
                sink.flush()
                tally.add(block.results)
                on_block(tally)
    return tally


def evaluate_to_file(
    evaluator: Evaluator,
    log: Log,
    out: Path,
    settings: RunSettings,
    on_block: OnBlock,
    policy: ResumePolicy = ResumePolicy(),
) -> RunRecord:
    """Evaluate a log into a file, or resume a stopped run of the same log.

    The suffix of ``out`` is its format; the record of the run is next to it.

    Raises:
        EmptyInputError: The log has no rows.
        DataError: The log cannot be read, or breaks off; the output cannot be written.
        OutputLockedError: Another process is writing the output.
        OutputFullError: The disk is full; the run can be resumed.
        RunChangedError: The output belongs to another run.
    """
    check_format(out)
    lines = lines_path(out)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(log))
        rows = rows_of_log(log, settings)  # checks the first rows before the output
        kept = stack.enter_context(ResumableJsonl(lines, record_path(out)))
        stack.enter_context(raise_on_full_disk(out))
        record = _begin(_describe(evaluator, log, settings), out, kept, policy)
        if not record.finished:
            done = record.progress
            kept.keep(done.bytes)
            kept.write_record(record.to_dict())
            skipped = sum(1 for _ in itertools.islice(rows, done.rows))
            if skipped < done.rows:
                raise RunChangedError(
                    f"{log.source}: has {skipped} rows, but {done.rows} of them were evaluated; "
                    "start over with --restart"
                )
            blocks = evaluate_blocks(
                *(evaluator, rows, settings, record.block_characters),
                first_block=done.blocks,
            )
            for block in stack.enter_context(contextlib.closing(blocks)):
                if block.lines:
                    kept.append_lines(block.lines)
                record.counts.add(block.results)
                done = Progress(done.rows + block.rows, done.blocks + 1, kept.size)
                record.progress = done
                if block.lines:
                    kept.write_record(record.to_dict())
                on_block(record.counts)
            if lines != out:
                convert(lines, out)
            record.finished = True
            kept.write_record(record.to_dict())
        if lines != out:
            lines.unlink(missing_ok=True)
    return record


def rows_of_log(log: Log, settings: RunSettings) -> Iterator[LogRow]:
    """Return the rows of a log that has any, else raise ``EmptyInputError``."""
    rows = read_rows(log.rows(), settings.columns())
    first = next(rows, None)
    if first is None:
        name = "stdin" if log.source == STDIN else log.source
        raise EmptyInputError(f"{name}: is empty: there is no row to evaluate")
    return itertools.chain([first], rows)


def _describe(evaluator: Evaluator, log: Log, settings: RunSettings) -> RunRecord:
    """Return the record of a new run."""
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
            "thresholds": vars(bundle.info.thresholds) if bundle.info.thresholds else None,
            "errors": [asdict(rates) for rates in error_rates(bundle.info.alarms)],
        },
        backend={"name": evaluator.backend_name, "precision": evaluator.precision},
        settings=settings.to_dict(),
        block_characters=block_characters(evaluator),
    )


def _begin(now: RunRecord, out: Path, kept: ResumableJsonl, policy: ResumePolicy) -> RunRecord:
    """Return the run to resume, or ``now`` if there is none; refuses an output of another run."""
    before = None if policy.restart else read_record(out)
    if before is None:
        if not policy.restart and out.exists() and out.stat().st_size:
            raise RunChangedError(
                f"{out}: exists already, without the record of its run ({record_path(out).name});"
                " choose another --out, or replace it with --restart"
            )
        return now
    # A finished file of another format, whose lines are gone.
    is_made = kept.path != out and before.finished and out.exists()
    if not kept.size and not is_made:
        logger.info("%s: empty or removed; the run starts over", out)
        return now
    promised = before.progress.bytes
    if not is_made and (kept.size < promised or (before.finished and kept.size > promised)):
        raise RunChangedError(
            f"{kept.path}: has {kept.size} bytes, but {promised} were written; {_WAY_OUT}"
        )
    now.block_characters = before.block_characters  # as all shards must have the same blocks
    changes = before.changes(now)
    if not changes:
        return before
    if not policy.force or is_made:
        way_out = _WAY_OUT + ("" if is_made else ", or resume with --force")
        reason = f"was written by a different run ({'; '.join(changes)})"
        raise RunChangedError(f"{out}: {reason}; {way_out}")
    now.started, now.progress, now.counts = before.started, before.progress, before.counts
    now.changed = [*before.changed, *changes]
    return now
