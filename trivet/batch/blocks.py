"""Evaluation of rows, block by block.

The ends of blocks depend only on the rows and on ``block_characters`` of the run's record, because
the last digits of a verdict may depend on the other rows of a backend call. So resumed runs and
shards write the same bytes as one whole run.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from trivet.batch.out_formats import verdict_line
from trivet.batch.run_settings import RunSettings
from trivet.errors import DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.example_batch import ExampleBatch
from trivet.evaluation.streams import Block, prefetch
from trivet.logs.column_mapping import LogRow
from trivet.records import Evaluation, FailedEvaluation

_CALLS = 12  # backend calls in a block; about a second of the embedded bundle on two cores
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class BlockVerdicts:
    """A block of rows and their verdicts."""

    rows: int
    # one per row; none if the block belongs to another shard
    results: Sequence[Evaluation | FailedEvaluation] = ()
    lines: Sequence[bytes] = ()  # lines of the output, one per result


class _Begun(NamedTuple):
    """A block whose evaluation has begun, and its number, counted from 0."""

    number: int
    rows: list[LogRow]
    batch: ExampleBatch

    def cancel(self) -> None:
        """Cancel what has not run yet."""
        self.batch.cancel()


def evaluate_blocks(
    evaluator: Evaluator,
    rows: Iterable[LogRow],
    settings: RunSettings,
    characters: int,
    *,
    first_block: int = 0,
) -> Generator[BlockVerdicts, None, None]:
    """Evaluate rows from the beginning of block ``first_block`` on, lazily and in order.

    Raises:
        DataError: The log breaks off; the rows before were yielded.
    """

    def begin(numbered: tuple[int, list[LogRow]]) -> _Begun:
        number, block = numbered
        examples = [row.example for row in block] if settings.shard.has(number) else []
        batch = evaluator.begin(
            examples,
            allow_empty_contexts=settings.allow_empty_contexts,
            threshold=settings.threshold,
            strict=settings.strict,
        )
        return _Begun(number, block, batch)

    blocks = enumerate(_blocks(rows, characters), start=first_block)
    # Blocks of other shards are prefetched as well.
    ahead = settings.shard.count * (1 + 2 * evaluator.workers // _CALLS)
    for begun in prefetch(blocks, begin, ahead):
        block = begun.rows
        if not settings.shard.has(begun.number):
            yield BlockVerdicts(len(block))
            continue
        verdicts = begun.batch.results()
        results = [_name_place(result, row) for result, row in zip(verdicts, block, strict=True)]
        lines = [
            verdict_line(row, result, fields=settings.fields, texts=settings.texts)
            for row, result in zip(block, results, strict=True)
        ]
        yield BlockVerdicts(len(block), results, lines)


def block_characters(evaluator: Evaluator) -> int:
    """Return how many characters fill a block: enough for a few full calls of the backend."""
    return _CALLS * _CHARACTERS_PER_TOKEN * evaluator.limits.positions


def _blocks(rows: Iterable[LogRow], most: int) -> Iterator[list[LogRow]]:
    """Group rows into blocks, bounded in rows and in characters."""
    block = Block[LogRow]()
    broken = None
    try:
        for row in rows:
            if block.is_full_with(row, row.example, most):
                yield block
                block = Block()
    except DataError as error:
        broken = error
    if block:
        yield block
    if broken:
        raise broken


def _name_place(
    result: Evaluation | FailedEvaluation, row: LogRow
) -> Evaluation | FailedEvaluation:
    """Add the place of the row to the message of a failure, unless reading did it."""
    where = f"{row.location}: "
    if isinstance(result, FailedEvaluation) and not result.message.startswith(where):
        return replace(result, message=where + result.message)
    return result
