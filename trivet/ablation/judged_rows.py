"""The test rows of a run with their verdicts, and their file: compressed JSON lines."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trivet.errors import DataError
from trivet.labelled.labelled_jsonl import parse_row, to_row
from trivet.labelled.source_files import read_json_lines
from trivet.labelled.source_report import RowError, SourceReport
from trivet.measures.predictions import Prediction
from trivet.records import FailedEvaluation, to_json_text
from trivet.verdict_json import read_evaluation


@dataclass(frozen=True)
class JudgedRow:
    """A row of a test entry, and the verdict of a run."""

    test: str  # label of the test entry
    prediction: Prediction
    leaked: bool | None  # whether it shares a text with training rows; None: not known

    def name(self) -> tuple[str | None, ...]:
        """Return what must be the same in all runs."""
        row = self.prediction.example
        return self.test, row.example.id, row.source, row.group


def write_rows(path: Path, rows: Iterable[JudgedRow]) -> None:
    """Write one JSON object per line; never NaN."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for row in rows:
            result = row.prediction.evaluation
            if isinstance(result, FailedEvaluation):
                verdict = {"error": asdict(result)}
            else:
                verdict = {"verdict": result.to_dict()}
            about = {"test": row.test, "leaked": row.leaked, "row": to_row(row.prediction.example)}
            file.write(f"{to_json_text(about | verdict)}\n")


def read_rows(path: Path) -> list[JudgedRow]:
    """Return the rows of a file.

    Raises:
        DataError: The file cannot be read, or a line is not a row with its verdict.
    """
    rows = []
    for number, line in read_json_lines(path):
        try:
            if isinstance(line, RowError):
                raise line
            rows.append(_read(line))
        except (RowError, DataError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path}, line {number}: no row with its verdict: {error}") from error
    return rows


def _read(line: Mapping[str, Any]) -> JudgedRow:
    row = line["row"]
    example = parse_row(row, "", "", SourceReport(""))
    if "unsupported" not in row["labels"]:  # reading concludes it from a verdict on the response
        example = replace(example, labels=replace(example.labels, unsupported=None))
    failed = "error" in line
    result = FailedEvaluation(**line["error"]) if failed else read_evaluation(line["verdict"])
    return JudgedRow(line["test"], Prediction(example, result), line["leaked"])
