"""Evaluation of a log that grows: each row as soon as its line is whole."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from trivet.batch.run import OnBlock
from trivet.batch.settings import RunSettings
from trivet.batch.verdict_lines import verdict_line
from trivet.errors import DataError, ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.logs.column_mapping import LogRow
from trivet.logs.json_rows import LONGEST_LINE, parse_line
from trivet.logs.log import SourceRow
from trivet.logs.recognition import read_rows
from trivet.report.run_tally import RunTally

logger = logging.getLogger(__name__)

_ROWS = 64  # most rows that are evaluated together
_SUFFIXES = (".jsonl", ".ndjson", ".jl", ".log", "")


def check_watched(path: Path) -> None:
    """Raise ``DataError`` unless a path is a file of JSON lines by its suffix."""
    if not path.is_file() or path.suffix.lower() not in _SUFFIXES:
        what = "no JSON lines by its suffix" if path.is_file() else "no file"
        raise DataError(f"{path}: is {what}; --watch follows one file of JSON lines that grows")


def watch(
    evaluator: Evaluator,
    path: Path,
    settings: RunSettings,
    sink: IO[bytes],
    on_block: OnBlock,
    stopped: Callable[[], bool] = lambda: False,
    pause_seconds: float = 0.5,
) -> RunTally:
    """Evaluate the rows of a file and then those that are added, until ``stopped``.

    A file that was cut or replaced is read from its beginning. A last line without its end waits.

    Raises:
        DataError: The rows cannot be read at all; see `read_rows`.
    """
    waiting: queue.Queue[LogRow | BaseException | None] = queue.Queue(2 * _ROWS)
    ended = threading.Event()

    def ends() -> bool:
        return ended.is_set() or stopped()

    def read() -> None:
        try:
            rows = _rows(path, ends, pause_seconds)
            for row in read_rows(rows, settings.columns(), at_once=True):
                _put(waiting, row, ended)
            _put(waiting, None, ended)
        except BaseException as error:  # belongs to the thread that evaluates
            _put(waiting, error, ended)

    threading.Thread(target=read, name="trivet-watch", daemon=True).start()
    tally = RunTally()
    try:
        while True:
            found = [waiting.get()]
            while len(found) < _ROWS and not waiting.empty():
                found.append(waiting.get())
            rows = [each for each in found if isinstance(each, LogRow)]
            results = evaluator.begin(
                [row.example for row in rows],
                allow_empty_contexts=settings.allow_empty_contexts,
                threshold=settings.threshold,
            ).results()
            tally.add(results)
            on_block(tally)  # before the lines are seen, so that a stop counts them
            for row, result in zip(rows, results, strict=True):
                sink.write(verdict_line(row, result, fields=settings.fields, texts=settings.texts))
            sink.flush()
            last = found[-1]
            if isinstance(last, BaseException):
                raise last
            if last is None:
                return tally
    finally:
        ended.set()


def _put(waiting: queue.Queue[Any], item: object, ended: threading.Event) -> None:
    """Wait for room, unless nobody takes anything any more."""
    while not ended.is_set():
        try:
            return waiting.put(item, timeout=0.5)
        except queue.Full:
            continue


def _rows(path: Path, ends: Callable[[], bool], pause_seconds: float) -> Iterator[SourceRow]:
    """Yield the rows of a file as their lines are written."""
    number = 0
    while not ends():
        with path.open("rb") as file:
            identity = path.stat().st_ino
            line_number, begun = 0, b""
            while True:
                begun += file.readline(LONGEST_LINE)
                if begun.endswith(b"\n") or len(begun) > LONGEST_LINE:
                    line_number += 1
                    line, begun = begun, b""
                    if line.strip():
                        number += 1
                        yield _row(number, line_number, line)
                    continue
                if ends():
                    return
                if _was_replaced(path, identity, file.tell()):
                    logger.info("%s: was cut or replaced, and is read from its beginning", path)
                    break
                time.sleep(pause_seconds)


def _row(number: int, line_number: int, line: bytes) -> SourceRow:
    place = f"line {line_number}"
    if len(line) > LONGEST_LINE:
        error = ExampleError(f"is longer than {LONGEST_LINE} bytes", "malformed_line")
        return SourceRow(number, place, line_number, error)
    try:
        return SourceRow(number, place, line_number, parse_line(line))
    except ExampleError as error:
        return SourceRow(number, place, line_number, error)


def _was_replaced(path: Path, identity: int, read_bytes: int) -> bool:
    """Tell whether a path is another file than before, or a shorter one."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return False  # between the two steps of a rotation
    return now.st_ino != identity or now.st_size < read_bytes
