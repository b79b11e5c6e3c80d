"""A file of examples in, a file of verdicts out, one JSON object a line."""

from __future__ import annotations

import contextlib
import logging
import lzma
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from trivet.data.json_lines import open_lines
from trivet.data.records_in import read_rag_examples
from trivet.records import DataError, Evaluation, FailedEvaluation, to_json_text
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
        file: A path, plain or compressed by its last suffix (``.gz``, ``.xz``, ``.zst``); ``-``
            is stdin.
        out: Where the verdicts go; ``None`` is stdout.
        mapping: Our field names to the file's.
        allow_empty_contexts: As in ``Evaluator.evaluate``.

    Raises:
        DataError: A file cannot be opened, or the input breaks off.
    """
    read_rag_examples((), mapping)  # a wrong mapping must not cost an output that is there
    with contextlib.ExitStack() as stack:
        lines = sys.stdin.buffer if file == "-" else stack.enter_context(open_lines(Path(file)))
        return evaluate_lines(
            evaluator,
            lines,
            stack.enter_context(output(out)),
            mapping,
            allow_empty_contexts=allow_empty_contexts,
            on_row=stack.enter_context(progress("evaluate")),
        )


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
    source = _Lines(lines)
    examples = read_rag_examples(source, mapping)
    for result in evaluator.evaluate_many(examples, allow_empty_contexts=allow_empty_contexts):
        number = source.waiting.popleft()
        place = f"line {number}: "  # what could not be read begins with it already
        if isinstance(result, FailedEvaluation) and not result.message.startswith(place):
            result = replace(result, message=place + result.message)
        out.write(to_line(result))
        if isinstance(result, FailedEvaluation):
            failed += 1
            if failed <= _NAMED:
                logger.warning("%s: %s", result.code, result.message)
        else:
            judged += 1
        on_row()
    out.flush()
    if source.broken is not None:
        raise DataError(
            f"the input breaks off after line {source.number}: {source.broken}; what stands before "
            f"was judged: {judged} verdicts, {failed} failures"
        )
    return FileCounts(judged, failed)


def to_line(result: Evaluation | FailedEvaluation) -> bytes:
    """Return a result as one line of JSON in UTF-8."""
    record = (
        {"id": result.id, "error": {"code": result.code, "message": result.message}}
        if isinstance(result, FailedEvaluation)
        else result.to_dict()
    )
    return to_json_text(record).encode() + b"\n"


class _Lines:
    """The lines of a file that may be damaged; remembers which ones wait for a result.

    Attributes:
        number: Lines read so far.
        waiting: Numbers of the lines that are not blank and have no result yet.
        broken: What stopped the reading before the end, if anything did.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self.number = 0
        self.waiting: deque[int] = deque()
        self.broken: Exception | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for line in self._lines:
                self.number += 1
                if line.strip():
                    self.waiting.append(self.number)
                yield line
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            self.broken = error
