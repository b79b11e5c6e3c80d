"""A file of examples in, a file of verdicts out, one JSON object a line."""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import lzma
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from trivet.data.records_in import read_rag_examples
from trivet.records import DataError, Evaluation, FailedEvaluation
from trivet.serve.console import output, progress
from trivet.serve.evaluator import Evaluator

logger = logging.getLogger(__name__)

# Failures named in the log; all of them stand in the output.
_NAMED = 10


@dataclass(frozen=True, slots=True)
class FileCounts:
    """How many rows of a file were judged, and how many could not be."""

    judged: int
    failed: int


def evaluate_file(
    evaluator: Evaluator,
    file: str,
    out: Path | None,
    mapping: Mapping[str, str],
    allow_empty_contexts: bool = False,
) -> FileCounts:
    """Judge every line of a file, with a progress bar on stderr; see ``evaluate_lines``.

    Args:
        evaluator: The judge.
        file: A path, plain or compressed by its last suffix (``.gz``, ``.xz``); ``-`` is stdin.
        out: Where the verdicts go; ``None`` is stdout.
        mapping: Our field names to the file's.
        allow_empty_contexts: As in ``Evaluator.evaluate``.

    Raises:
        DataError: A file cannot be opened, or the input breaks off.
    """
    with contextlib.ExitStack() as stack:
        lines = sys.stdin.buffer if file == "-" else stack.enter_context(_open(Path(file)))
        return evaluate_lines(
            evaluator,
            lines,
            stack.enter_context(output(out)),
            mapping,
            allow_empty_contexts=allow_empty_contexts,
            on_row=stack.enter_context(progress("evaluate")),
        )


def _open(path: Path) -> IO[bytes]:
    try:
        if path.suffix == ".gz":
            return cast(IO[bytes], gzip.open(path))
        return lzma.open(path) if path.suffix == ".xz" else path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror or error}") from error


def evaluate_lines(
    evaluator: Evaluator,
    lines: Iterable[bytes],
    out: IO[bytes],
    mapping: Mapping[str, str],
    *,
    allow_empty_contexts: bool = False,
    on_row: Callable[[], None] = lambda: None,
) -> FileCounts:
    """Judge every line and write one line for each, in order.

    A line that cannot be read or judged becomes ``{"id", "error": {"code", "message"}}`` in its
    place, and the rest goes on.

    Args:
        evaluator: The judge.
        lines: JSON objects; read lazily.
        out: Where the verdicts go; written lazily.
        mapping: Our field names to the file's, beside the names known anyway.
        allow_empty_contexts: As in ``Evaluator.evaluate``.
        on_row: Called after each row, for a progress bar.

    Returns:
        How many were judged and how many failed.

    Raises:
        DataError: ``lines`` breaks off, as a truncated compressed file does.
    """
    judged = failed = 0
    examples = read_rag_examples(_readable(lines), mapping)
    for result in evaluator.evaluate_many(examples, allow_empty_contexts=allow_empty_contexts):
        out.write(to_line(result))
        if isinstance(result, FailedEvaluation):
            failed += 1
            if failed <= _NAMED:
                logger.warning("%s: %s", result.code, result.message)
        else:
            judged += 1
        on_row()
    out.flush()
    return FileCounts(judged, failed)


def to_line(result: Evaluation | FailedEvaluation) -> bytes:
    """Return a result as one line of JSON in UTF-8."""
    record = (
        {"id": result.id, "error": {"code": result.code, "message": result.message}}
        if isinstance(result, FailedEvaluation)
        else result.to_dict()
    )
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; escaped, the line is plain ASCII and means the same.
        return json.dumps(record, allow_nan=False).encode() + b"\n"


def _readable(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Pass lines on; name the line at which a damaged file breaks off."""
    number = 0
    try:
        for number, line in enumerate(lines, start=1):  # noqa: B007 (read after the loop breaks)
            yield line
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise DataError(f"the input breaks off after line {number}: {error}") from error
