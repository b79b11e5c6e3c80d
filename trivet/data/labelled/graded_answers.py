"""FinQA and ELI5 with graded answers, as "Real-Time Evaluation Models for RAG" measures judges.

Both grade whether an answer is **right**, which is taken as supported: the answers were written
from the context alone, or explain it. Sources: arXiv 2503.21157, its notebooks in
cleanlab/cleanlab-tools, and the two data sets on the hub.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import partial

from trivet.data.labelled.grouping import digest
from trivet.data.labelled.source_files import PublishedRow, read_published
from trivet.data.labelled.source_report import RowError, SourceReport
from trivet.errors import DataError
from trivet.records import LabelledExample, Labels, RagExample


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a data set; the grade is 1 for a right answer, else 0."""

    question: str
    context: str
    response: str
    grade: str


DATA_SETS = {
    "finqa": (
        "Cleanlab/FinQA-hallucination-detection",
        Columns("query", "context", "llm_response", "is_correct"),
    ),
    "eli5": (
        "explodinggradients/ELI5",
        Columns("user_input", "reference", "response", "target"),
    ),
}


def read_graded(kind: str, name: str) -> tuple[list[LabelledExample], SourceReport]:
    """Read ``finqa`` or ``eli5`` from a folder of ``*.parquet``, or else from the hub.

    ``source`` is the kind; ``split`` is the publishers'; rows about one context share a group. The
    kind is also a short name of its data set: ``finqa:finqa``.

    Raises:
        DataError: There is neither such a folder nor such a data set, a file cannot be read, or it
            lacks a column.
    """
    hub_name, columns = DATA_SETS[kind]
    report = SourceReport(source=f"{kind}:{name}")

    def named_rows() -> Iterator[tuple[str, PublishedRow]]:
        rows = read_published(name, astuple(columns), {kind: hub_name})
        for number, row in enumerate(rows, start=1):
            if missing := [column for column in astuple(columns) if column not in row.values]:
                raise DataError(
                    f"{kind}:{name} has no column {', '.join(missing)}; a row of {hub_name} has "
                    f"{', '.join(astuple(columns))}"
                )
            yield f"{kind}/{row.split}/{number}", row

    return report.collect(named_rows(), partial(_labelled, kind=kind, columns=columns)), report


def _labelled(row: PublishedRow, place: str, kind: str, columns: Columns) -> LabelledExample:
    question, context, response = (
        "" if (value := row.values[column]) is None else str(value)
        for column in (columns.question, columns.context, columns.response)
    )
    if not context.strip() or not response.strip():
        raise RowError("the context or the response holds no text")
    grade = row.values[columns.grade]
    if grade not in (0, 1):
        raise RowError(f"{columns.grade} is neither 0 nor 1", repr(grade))
    return LabelledExample(
        example=RagExample(question, (context,), response, place),
        labels=Labels(adherent=bool(grade)),
        source=kind,
        group=f"{kind}/{digest(context.strip())}",
        split=row.split,
    )
