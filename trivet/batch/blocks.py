"""Rows judged block by block.

Where a block ends depends on its rows alone, and on how many characters the run's record grants it;
and what an engine answers may depend, in its last digits, on what it judges together. Resumed runs
and shards keep whole blocks, and so write the very bytes that one uninterrupted run would have
written.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from trivet.batch.errors import StrictError
from trivet.batch.settings import RunSettings
from trivet.batch.verdict_lines import to_line, verdict_record
from trivet.data.logs.column_mapping import LogRow
from trivet.evaluation.evaluator import Evaluator, Judging
from trivet.evaluation.prefetch import prefetch
from trivet.evaluation.preprocessing import count_characters
from trivet.records import DataError, Evaluation, FailedEvaluation

_ROWS = 64
_CALLS = 12  # of the engine; on two cores about a second of the embedded bundle
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class JudgedBlock:
    """A block of rows and what was found of them.

    Attributes:
        rows: How many rows it has.
        results: One for each row; none where the block belongs to another shard.
        lines: Likewise, as they stand in the output.
        stop: Why the run must stop here, behind ``lines``; the block is not whole then.
    """

    rows: int
    results: Sequence[Evaluation | FailedEvaluation] = ()
    lines: Sequence[bytes] = ()
    stop: StrictError | None = None


class _Begun(NamedTuple):
    """A block that is being judged, and which it is, counted from 0."""

    number: int
    rows: list[LogRow]
    judging: Judging

    def cancel(self) -> None:
        """Give up what has not run."""
        self.judging.cancel()


def judge_blocks(
    evaluator: Evaluator,
    rows: Iterable[LogRow],
    settings: RunSettings,
    characters: int,
    *,
    first_block: int = 0,
    strict: bool = False,
) -> Generator[JudgedBlock, None, None]:
    """Judge rows, lazily and in order.

    Args:
        evaluator: The judge.
        rows: From the beginning of a block on.
        settings: What is judged, and what is written of it.
        characters: A block ends behind the row with which it has so many.
        first_block: The number of that block, counted from 0.
        strict: Whether to stop at the first row that cannot be judged.

    Raises:
        DataError: The log breaks off; the rows before it were yielded.
    """

    def begin(numbered: tuple[int, list[LogRow]]) -> _Begun:
        number, block = numbered
        examples = [row.example for row in block] if settings.shard.has(number) else []
        allow = settings.allow_empty_contexts
        return _Begun(number, block, evaluator.begin(examples, allow_empty_contexts=allow))

    blocks = enumerate(_blocks(rows, characters), start=first_block)
    ahead = settings.shard.count * (1 + 2 * evaluator.workers // _CALLS)  # other shards' among them
    for begun in prefetch(blocks, begin, ahead):
        block = begun.rows
        if not settings.shard.has(begun.number):
            yield JudgedBlock(len(block))
            continue
        placed = [
            _placed(result, row) for result, row in zip(begun.judging.results(), block, strict=True)
        ]
        stop = next((n for n, r in enumerate(placed) if isinstance(r, FailedEvaluation)), None)
        error = None
        if strict and stop is not None and isinstance(failed := placed[stop], FailedEvaluation):
            error = StrictError(f"{failed.message}; --strict stops there", failed.code)
            block, placed = block[:stop], placed[:stop]
        lines = [
            to_line(verdict_record(row, result, fields=settings.fields, texts=settings.texts))
            for row, result in zip(block, placed, strict=True)
        ]
        yield JudgedBlock(len(block), placed, lines, error)


def block_characters(evaluator: Evaluator) -> int:
    """Return how many characters fill a block: enough for a few full calls of the engine.

    What a crash costs is the block that is written and those begun ahead of it.
    """
    return _CALLS * _CHARACTERS_PER_TOKEN * evaluator.limits.positions


def _blocks(rows: Iterable[LogRow], most: int) -> Iterator[list[LogRow]]:
    """Group rows into blocks of a bounded number of rows and of characters."""
    block: list[LogRow] = []
    characters = 0
    broken = None
    try:
        for row in rows:
            block.append(row)
            characters += count_characters(row.example)
            if len(block) >= _ROWS or characters >= most:
                yield block
                block, characters = [], 0
    except DataError as error:
        broken = error
    if block:
        yield block
    if broken:
        raise broken


def _placed(result: Evaluation | FailedEvaluation, row: LogRow) -> Evaluation | FailedEvaluation:
    """Let a failure say where its row stands; one of reading says it already."""
    place = f"{row.place}: "
    if isinstance(result, FailedEvaluation) and not result.message.startswith(place):
        return replace(result, message=place + result.message)
    return result
