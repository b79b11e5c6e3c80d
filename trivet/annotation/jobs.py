"""Jobs of language models, from their settings to their files, with progress.

Rows are worked on at the same time, and come out in their order; each answer is asked for again
until it passes its checks (`trivet.annotation.asking`).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from trivet.annotation.answer import Agreement, Pairs
from trivet.annotation.asking import RejectedError
from trivet.annotation.results import ResultFiles
from trivet.batch.progress import show_line
from trivet.errors import ExampleError
from trivet.evaluation.streams import work_in_order
from trivet.llm.budget import Usage
from trivet.llm.chat import ChatRequest, LlmError
from trivet.llm.client import ChatClient
from trivet.llm.settings import LlmSettings
from trivet.logs.log import Log

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

    def make(self, item: _Item) -> Made:
        """Return the rows for an item; several threads may call it."""


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


class Foreseen(NamedTuple):
    """Requests that a job would make at most; answers that are sent back cost more calls."""

    asked: int
    unusable: int
    usage: Usage

    def __str__(self) -> str:
        return (
            f"{self.asked} to ask about, {self.unusable} that cannot be used; at most {self.usage}"
        )


class Done(NamedTuple):
    """Rows that a job wrote, and its costs."""

    tally: JobTally
    usage: Usage

    def __str__(self) -> str:
        return f"{self.tally}\n{self.usage}"


def run_or_foresee(
    make_job: Callable[[Sequence[ChatClient]], Job[Item]],
    items: Iterable[tuple[Row, Item]],
    out: Path,
    described: Mapping[str, Any],
    models: Sequence[str],
    settings: LlmSettings,
    log: Log | None = None,
    others: Sequence[str] = (),
) -> Foreseen | Done:
    """Write the rows of a job, or tell what it would cost.

    Args:
        make_job: Function that makes the job from a client for each model.
        items: Items, each with what tells it from others in the rejected rows.
        out: File to write.
        described: Input and settings on which the rows depend.
        models: Models to ask.
        settings: Endpoint, cost and output.
        log: Log whose share read so far is the progress.
        others: Kinds of files besides ``out`` and the rejected items.

    Raises:
        LlmError: Further calls would fail too, or the budget is used up.
        OutputFullError: The disk is full.
    """
    known = {"models": list(models), **described}
    with (
        ResultFiles(out, [*others, REJECTED], known, restart=settings.restart) as files,
        settings.open_clients(models, files.cache) as clients,
    ):
        job = make_job(clients)
        if settings.dry_run:
            return _foresee(job, items)
        with show_line(settings.quiet) as say:

            def show(tally: JobTally) -> None:
                share = log and log.share_read()
                read = "" if share is None else f" | {share:.0%} read"
                say(lambda: f"{tally} | {_usage_of(clients)}{read}")

            # Each client limits its own calls.
            tally = _run(job, items, files, settings.concurrency * max(1, len(clients)), show)
        used = _usage_of(clients)
        files.summary["usage"] = str(used)
    return Done(tally, used)


def _run(
    job: Job[Item],
    items: Iterable[tuple[Row, Item]],
    files: ResultFiles,
    threads: int,
    show: Callable[[JobTally], None],
) -> JobTally:
    """Write the rows for all items in their order, and the items without result."""
    tally = JobTally()

    def work(item: tuple[Row, Item]) -> Made | ExampleError:
        try:
            return job.make(item[1])
        except ExampleError as error:
            return error
        except LlmError as error:
            if error.fatal:
                raise
            return ExampleError(str(error), error.code)

    try:
        with contextlib.closing(work_in_order(items, work, threads)) as results:
            for (place, _), result in results:
                if isinstance(result, ExampleError):
                    tally.rejected[result.code] += 1
                    files.write(place | _reason(result), REJECTED)
                else:
                    tally.written += len(result.rows)
                    tally.made.update(result.kinds)
                    tally.agreement.add(result.pairs)
                    for row in result.rows:
                        files.write(row, result.file)
                show(tally)
    finally:
        files.summary["rows"] = tally.to_dict()
    return tally


def _foresee(job: Job[Item], items: Iterable[tuple[Row, Item]]) -> Foreseen:
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
    return Foreseen(asked, bad, usage)


def _reason(error: ExampleError) -> Row:
    reason: Row = {"error": {"code": error.code, "message": str(error)}}
    if isinstance(error, RejectedError):
        reason["calls"] = asdict(error.provenance)
    return reason


def _usage_of(clients: Sequence[ChatClient]) -> Usage:
    """Return the calls, tokens and dollars of all clients."""
    total = Usage()
    for client in clients:
        total.add(client.usage)
    return total
