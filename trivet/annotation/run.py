"""A log in, labelled rows out: by one annotator, or by two whose agreement is the weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from trivet.annotation.agreement import Agreement, agreement, pair_decisions, weight
from trivet.annotation.annotator import Annotator
from trivet.annotation.answer import Answer
from trivet.annotation.asking import Provenance, RejectedError, result_or_error
from trivet.annotation.in_order import work_in_order
from trivet.annotation.results import ResultFiles
from trivet.annotation.sentence_keys import KeyedExample
from trivet.data.labelled.grouping import digest
from trivet.data.labelled.labelled_jsonl import to_row
from trivet.data.logs.column_mapping import LogRow
from trivet.errors import ExampleError
from trivet.llm.budget import Usage
from trivet.records import LabelledExample, RagExample

REVIEW, REJECTED = "review", "rejected"
"""Kinds of rows besides the labelled: those on whose support two annotators disagree, and those
without labels, each with the reason."""

_Labelled = tuple[KeyedExample, list[tuple[Answer, Provenance]]]


@dataclass
class Tally:
    """Counts of rows by what became of them; ``rejected`` by code."""

    labelled: int = 0
    review: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    agreement: Agreement = field(default_factory=Agreement)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as written in the record of a run."""
        return vars(self) | {"agreement": self.agreement.to_dict()}

    def __str__(self) -> str:
        parts = [f"{self.labelled} labelled"]
        parts += [f"{self.review} to review"] if self.review else []
        why = ", ".join(f"{code} {count}" for code, count in self.rejected.most_common())
        parts += [f"{self.rejected.total()} rejected ({why})"] if why else []
        return ", ".join(parts)


async def annotate_rows(
    rows: Iterable[LogRow],
    annotators: Sequence[Annotator],
    files: ResultFiles,
    source: str,
    ahead: int,
    on_row: Callable[[Tally], None],
) -> Tally:
    """Label the rows of a log, in order.

    Args:
        rows: Rows.
        annotators: One, or two to compare.
        files: Files with the kinds ``review`` and ``rejected``.
        source: Source of the labelled rows.
        ahead: Most rows that are worked on at once.
        on_row: Called after each row.

    Raises:
        LlmError: Further calls would fail too, or the budget is used up.
        OutputFullError: The disk is full.
    """
    tally = Tally()

    async def label(row: LogRow) -> _Labelled:
        keyed = readable(row)
        # One after the other: a row without one answer needs no other.
        return keyed, [await annotator.annotate(keyed) for annotator in annotators]

    results = work_in_order(rows, partial(result_or_error, label), ahead)
    try:
        async for row, result in results:
            if isinstance(result, ExampleError):
                tally.rejected[result.code] += 1
                files.write(_rejected(row, result), REJECTED)
            else:
                _write(row, result, files, source, tally)
            on_row(tally)
    finally:
        await results.aclose()
        files.summary["rows"] = tally.to_dict()
    return tally


def foresee(rows: Iterable[LogRow], annotators: Sequence[Annotator]) -> tuple[int, int, Usage]:
    """Return how many rows can be labelled, how many cannot, and the calls it takes at most.

    Answers that are sent back cost more calls, which nobody can foresee.
    """
    good, bad, usage = 0, 0, Usage()
    for row in rows:
        try:
            keyed = readable(row)
        except ExampleError:
            bad += 1
            continue
        good += 1
        for annotator in annotators:
            usage.add(annotator.client.foresee(annotator.request(keyed)))
    return good, bad, usage


def readable(row: LogRow) -> KeyedExample:
    """Return a row with its sentences; ``ExampleError`` if there is nothing to label."""
    example = row.example
    if not isinstance(example, RagExample):
        raise ExampleError(example.message, example.code)
    keyed = KeyedExample.of(example)
    if not keyed.contexts:
        raise ExampleError(f"{row.place}: no context holds any text", "empty_contexts")
    if not keyed.response:
        raise ExampleError(f"{row.place}: the response holds no text", "empty_response")
    return keyed


def _write(row: LogRow, result: _Labelled, files: ResultFiles, source: str, tally: Tally) -> None:
    """Write a labelled row: to review if two annotators disagree on its support."""
    keyed, ((answer, provenance), *others) = result
    annotation: dict[str, Any] = asdict(provenance)
    group, generator = row.metadata.get("group"), row.metadata.get("generator")
    share, kind = 1.0, ""
    for other, its_provenance in others:
        pairs = pair_decisions(answer, other, keyed)
        tally.agreement.add(pairs)
        share = weight(pairs)
        if any(one != two for one, two in pairs["support"]):
            kind = REVIEW
        annotation |= {"agreement": agreement(pairs), "other": asdict(its_provenance)}
    labelled = LabelledExample(
        example=keyed.example,
        labels=answer.labels(keyed),
        source=source,
        group=digest(*keyed.example.contexts) if group is None else str(group),
        generator=None if generator is None else str(generator),
        weight=share,
    )
    if kind:
        tally.review += 1
    else:
        tally.labelled += 1
    files.write(to_row(labelled) | _extra(row) | {"annotation": annotation}, kind)


def _rejected(row: LogRow, error: ExampleError) -> dict[str, Any]:
    record: dict[str, Any] = {"row": row.number, "id": row.example.id}
    if isinstance(row.example, RagExample):
        texts = ("question", "contexts", "response")
        record |= {name: getattr(row.example, name) for name in texts}
    record |= _extra(row) | {"error": {"code": error.code, "message": str(error)}}
    if isinstance(error, RejectedError):
        record["annotation"] = asdict(error.provenance)
    return record


def _extra(row: LogRow) -> dict[str, Any]:
    return {"metadata": dict(row.metadata)} if row.metadata else {}
