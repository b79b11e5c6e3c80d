"""Jobs of language models: each answer is asked for again until it passes its checks.

Rows are worked on at the same time, and come out in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeVar

from trivet.annotation.answer import Agreement, Pairs
from trivet.annotation.asking import RejectedError, result_or_error
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


@dataclass(frozen=True)
class Made:
    """Result of a job on an item.

    Attributes:
        rows: Rows to write.
        kinds: Kinds of what was made, each as often as it was.
        file: Kind of the file for the rows; by default the first one.
        pairs: Decisions of two annotators on the item.
    """

    rows: Sequence[Row]
    kinds: Sequence[str] = ()
    file: str = ""
    pairs: Pairs = field(default_factory=dict)


class Job(Protocol[_Item]):
    """Work on items; both methods raise ``ExampleError`` for one that cannot be used."""

    def plan(self, item: _Item) -> Sequence[tuple[ChatClient, ChatRequest]]:
        """Return each model that is asked, with the first request to it."""

    async def make(self, item: _Item) -> Made:
        """Return the rows for an item."""


@dataclass
class JobTally:
    """Rows written, what was made by kind, items without result by reason, and agreement."""

    made: Counter[str] = field(default_factory=Counter)
    written: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    agreement: Agreement = field(default_factory=Agreement)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as written in the record of a run."""
        return vars(self) | {"agreement": self.agreement.to_dict()}

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
        files: Files with the kinds ``rejected`` and those of the job.
        ahead: Most items that are worked on at once.
        on_item: Called after each item.

    Raises:
        LlmError: Further calls would fail too, or the budget is used up.
        OutputFullError: The disk is full.
    """
    tally = JobTally()

    def work(item: tuple[Row, Item]) -> Awaitable[Made | ExampleError]:
        return result_or_error(job.make, item[1])

    try:
        async with contextlib.aclosing(work_in_order(items, work, ahead)) as results:
            async for (place, _), result in results:
                if isinstance(result, ExampleError):
                    tally.rejected[result.code] += 1
                    files.write(place | _reason(result), REJECTED)
                else:
                    tally.written += len(result.rows)
                    tally.made.update(result.kinds)
                    tally.agreement.add(result.pairs)
                    for row in result.rows:
                        files.write(row, result.file)
                on_item(tally)
    finally:
        files.summary["rows"] = tally.to_dict()
    return tally


def foresee_job(job: Job[Item], items: Iterable[tuple[Row, Item]]) -> tuple[int, int, Usage]:
    """Return how many items are asked about, how many cannot be used, and the calls at most.

    Answers that are sent back cost more calls, which nobody can foresee.
    """
    asked, bad, usage = 0, 0, Usage()
    for _, item in items:
        try:
            planned = job.plan(item)
        except ExampleError:
            bad += 1
            continue
        asked += bool(planned)
        for client, request in planned:
            usage.add(client.foresee(request))
    return asked, bad, usage


def _reason(error: ExampleError) -> Row:
    reason: Row = {"error": {"code": error.code, "message": str(error)}}
    if isinstance(error, RejectedError):
        reason["calls"] = asdict(error.provenance)
    return reason


_Row = TypeVar("_Row")
_Result = TypeVar("_Result")


async def work_in_order(
    rows: Iterable[_Row], work: Callable[[_Row], Awaitable[_Result]], ahead: int
) -> AsyncGenerator[tuple[_Row, _Result], None]:
    """Yield each row with the result of ``work``, at most ``ahead`` rows after the first undone.

    An error of ``work`` is raised at its row; what works on later rows is cancelled then.
    """
    pending: deque[tuple[_Row, asyncio.Future[_Result]]] = deque()
    try:
        for row in rows:
            pending.append((row, asyncio.ensure_future(work(row))))
            if len(pending) >= ahead:
                first, result = pending.popleft()
                yield first, await result
        while pending:
            first, result = pending.popleft()
            yield first, await result
    finally:
        for _, result in pending:
            result.cancel()
        await asyncio.gather(*(result for _, result in pending), return_exceptions=True)
