"""Published sets of answers with one verdict each: HaluBench, FinQA and ELI5.

HaluBench (arXiv 2407.08488) says PASS, the passage supports the whole answer, or FAIL. FinQA and
ELI5, as "Real-Time Evaluation Models for RAG" (arXiv 2503.21157) measures judges, grade whether an
answer is **right**, which is taken as supported: the answers were written from the context alone,
or explain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trivet.errors import DataError
from trivet.labelled.grouping import digest
from trivet.labelled.source_files import PublishedRow, read_published
from trivet.labelled.source_report import RowError, SourceReport
from trivet.records import LabelledExample, Labels, RagExample


@dataclass(frozen=True)
class VerdictSet:
    """Name of a set on the hub, and its columns."""

    hub_name: str
    question: str
    context: str
    response: str
    verdict: str
    verdicts: Mapping[Any, bool]  # values of that column, and whether the answer is supported
    part: str | None = None  # column that names a part of the set

    @property
    def required(self) -> tuple[str, ...]:
        """Columns of every row."""
        named = (self.context, self.question, self.response, self.verdict, self.part)
        return tuple(filter(None, named))


_GRADES: Mapping[Any, bool] = {0: False, 1: True}
VERDICT_SETS = {
    "halubench": VerdictSet(
        "PatronusAI/HaluBench",
        *("question", "passage", "answer", "label"),
        {"PASS": True, "FAIL": False},
        "source_ds",
    ),
    "finqa": VerdictSet(
        "Cleanlab/FinQA-hallucination-detection",
        *("query", "context", "llm_response", "is_correct"),
        _GRADES,
    ),
    "eli5": VerdictSet(
        "explodinggradients/ELI5", *("user_input", "reference", "response", "target"), _GRADES
    ),
}


def read_verdict_set(kind: str, name: str) -> tuple[list[LabelledExample], SourceReport]:
    """Read a set of ``VERDICT_SETS`` from a folder of ``*.parquet``, or else from the hub.

    ``source`` is the kind, of HaluBench with the name of the part; ``split`` is the publishers';
    rows about one passage share a group. The kind is also a short name of its data set.

    Raises:
        DataError: There is neither such a folder nor such a data set, a file cannot be read, or it
            lacks a column.
    """
    columns = VERDICT_SETS[kind]
    report = SourceReport(source=f"{kind}:{name}")

    def named_rows() -> Iterator[tuple[str, PublishedRow]]:
        rows = read_published(name, ("id", *columns.required), {kind: columns.hub_name})
        for number, row in enumerate(rows, start=1):
            if missing := [column for column in columns.required if column not in row.values]:
                raise DataError(
                    f"{kind}:{name} has no column {', '.join(missing)}; a row of "
                    f"{columns.hub_name} has {', '.join(columns.required)}"
                )
            row_id = row.values.get("id")
            yield f"{kind}/{row.split}/{number}" if row_id is None else str(row_id), row

    return report.collect(named_rows(), partial(_labelled, kind=kind, columns=columns)), report


def _labelled(row: PublishedRow, location: str, kind: str, columns: VerdictSet) -> LabelledExample:
    passage, response = _text(row, columns.context), _text(row, columns.response)
    verdict = row.values[columns.verdict]
    key = verdict.strip().upper() if isinstance(verdict, str) else verdict
    supported = columns.verdicts.get(key) if isinstance(key, str | int | float) else None
    if supported is None:
        reason = f"{columns.verdict} is neither {' nor '.join(map(str, columns.verdicts))}"
        raise RowError(reason, repr(verdict))
    question = row.values[columns.question]
    asked = "" if question is None else _text(row, columns.question)
    return LabelledExample(
        example=RagExample(asked, (passage,), response, location),
        labels=Labels(adherent=supported),
        source=f"{kind}/{_text(row, columns.part).strip()}" if columns.part else kind,
        group=f"{kind}/{digest(passage.strip())}",
        split=row.split,
    )


def _text(row: PublishedRow, column: str) -> str:
    value = row.values[column]
    if not isinstance(value, str | int | float) or not str(value).strip():  # an answer may be 12.5
        raise RowError(f"{column} is empty")
    return str(value)
