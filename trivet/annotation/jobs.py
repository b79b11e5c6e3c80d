"""Rows of a language model: each answer is asked for again until it passes its checks."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeVar

from trivet.annotation.asking import RejectedError, result_or_error
from trivet.annotation.in_order import work_in_order
from trivet.annotation.results import ResultFiles
from trivet.errors import ExampleError
from trivet.llm.budget import Usage
from trivet.llm.chat import ChatRequest
from trivet.llm.client import ChatClient

Item = TypeVar("Item")
_Item = TypeVar("_Item", contravariant=True)
Row = dict[str, Any]

MOST_TOKENS = 2000
"""Most tokens of an answer, with the reasoning of a model that writes it first."""
REJECTED = "rejected"
"""Kind of the rows that name an item without result, and the reason."""


class Job(Protocol[_Item]):
    """Work on items; both methods raise ``ExampleError`` for one that cannot be used.

    Attributes:
        made: Counts of what was made, by kind.
    """

    made: Counter[str]

    def plan(self, item: _Item) -> tuple[ChatClient, ChatRequest] | None:
        """Return the first request and the model for it; ``None`` if nothing is asked."""

    async def write(self, item: _Item) -> Sequence[Row]:
        """Return the rows for an item."""


@dataclass
class JobTally:
    """Rows written, what was made by kind, and items without result by the code of the reason."""

    made: Counter[str]
    written: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        what, why = (
            ", ".join(f"{name} {count}" for name, count in counts.most_common())
            for counts in (self.made, self.rejected)
        )
        rejected = f", {self.rejected.total()} rejected ({why})" if why else ""
        return f"{self.written} rows ({what or 'nothing made'}){rejected}"


async def run_job(
    job: Job[Item],
    items: Iterable[tuple[Row, Item]],
    files: ResultFiles,
    ahead: int,
    on_item: Callable[[JobTally], None],
) -> JobTally:
    """Write the rows for all items in their order, and the items without result.

    Args:
        job: Job.
        items: Items, each with what tells it from others in the rejected rows.
        files: Files with the kind ``rejected``.
        ahead: Most items that are worked on at once.
        on_item: Called after each item.

    Raises:
        LlmError: Further calls would fail too, or the budget is used up.
        OutputFullError: The disk is full.
    """
    tally = JobTally(job.made)

    def work(item: tuple[Row, Item]) -> Awaitable[Sequence[Row] | ExampleError]:
        return result_or_error(job.write, item[1])

    try:
        async with contextlib.aclosing(work_in_order(items, work, ahead)) as results:
            async for (place, _), result in results:
                if isinstance(result, ExampleError):
                    tally.rejected[result.code] += 1
                    files.write(place | _reason(result), REJECTED)
                else:
                    tally.written += len(result)
                    for row in result:
                        files.write(row)
                on_item(tally)
    finally:
        files.summary["rows"] = vars(tally)
    return tally


def foresee_job(job: Job[Item], items: Iterable[tuple[Row, Item]]) -> tuple[int, Usage]:
    """Return how many items cannot be used, and the calls at most, without those sent back."""
    bad, usage = 0, Usage()
    for _, item in items:
        try:
            planned = job.plan(item)
        except ExampleError:
            bad += 1
        else:
            usage.add(planned[0].foresee(planned[1]) if planned else Usage())
    return bad, usage


def _reason(error: ExampleError) -> Row:
    reason: Row = {"error": {"code": error.code, "message": str(error)}}
    if isinstance(error, RejectedError):
        reason["calls"] = asdict(error.provenance)
    return reason
