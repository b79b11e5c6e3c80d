"""HaluBench (arXiv 2407.08488): its publishers' Parquet file, from a folder or from the hub.

The only label of a row is its verdict: PASS, the passage supports the whole answer, or FAIL.
"""

from __future__ import annotations

from collections.abc import Iterator

from trivet.data.labelled.grouping import digest
from trivet.data.labelled.source_files import PublishedRow, read_published
from trivet.data.labelled.source_report import RowError, SourceReport
from trivet.errors import DataError
from trivet.records import LabelledExample, Labels, RagExample

HUB_NAME = "PatronusAI/HaluBench"
REQUIRED = ("passage", "question", "answer", "label", "source_ds")
VERDICTS = {"PASS": True, "FAIL": False}


def read_halubench(name: str) -> tuple[list[LabelledExample], SourceReport]:
    """Read HaluBench from a folder of ``*.parquet``, or else from a hub data set.

    ``source`` is ``halubench/<source_ds>``; ``split`` is the publishers', ``test``; rows about one
    passage share a group. ``halubench`` is short for ``PatronusAI/HaluBench``.

    Raises:
        DataError: There is neither such a folder nor such a data set, a file cannot be read, or it
            lacks a column.
    """
    report = SourceReport(source=f"halubench:{name}")

    def named_rows() -> Iterator[tuple[str, PublishedRow]]:
        rows = read_published(name, ("id", *REQUIRED), {"halubench": HUB_NAME})
        for number, row in enumerate(rows, start=1):
            if missing := [column for column in REQUIRED if column not in row.values]:
                raise DataError(
                    f"halubench:{name} has no column {', '.join(missing)}; a row of HaluBench has "
                    f"{', '.join(REQUIRED)}"
                )
            given = row.values.get("id")
            yield f"row {number}" if given is None else str(given), row

    return report.collect(named_rows(), _labelled), report


def _labelled(row: PublishedRow, place: str) -> LabelledExample:
    passage, answer, label = _text(row, "passage"), _text(row, "answer"), _text(row, "label")
    adherent = VERDICTS.get(label.strip().upper())
    if adherent is None:
        raise RowError("label is neither PASS nor FAIL", repr(label))
    question = row.values["question"] or ""
    if not isinstance(question, str):
        raise RowError("question is not a string")
    return LabelledExample(
        example=RagExample(question=question, contexts=(passage,), response=answer, id=place),
        labels=Labels(adherent=adherent),
        source=f"halubench/{_text(row, 'source_ds').strip()}",
        group=f"halubench/{digest(passage.strip())}",
        split=row.split,
    )


def _text(row: PublishedRow, column: str) -> str:
    value = row.values[column]
    if not isinstance(value, str) or not value.strip():
        raise RowError(f"{column} holds no text")
    return value
