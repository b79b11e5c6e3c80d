"""Scores that exist already: published ones in the rows, and files of other tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from research.compare.systems import Score, Setup, System
from trivet.errors import ConfigError, DataError, ExampleError
from trivet.labelled.ragbench_labels import JUDGES
from trivet.logs.log import Log
from trivet.records import RagExample

_THRESHOLDS = {"GPT-3.5": 0.5}  # its answer is a yes or no; for the others none was published


def load(name: str, argument: str, setup: Setup) -> System:
    """Return ``stored:JUDGE``, outputs that the data publishes, or ``stored:FILE:COLUMN``.

    The column has faithfulness in [0, 1], or, after a minus (``stored:FILE:-COLUMN``), the
    probability of a hallucination. ``null`` or NaN is a failure.
    """
    file, _, column = argument.rpartition(":")
    if argument in JUDGES:
        return _published(argument, setup)
    if not file or not column.strip("-"):
        known = ", ".join(JUDGES)
        raise ConfigError(f"{name}:{argument}: must be stored:FILE:COLUMN or a judge of {known}")
    log = Log(file)
    scores: dict[str, Score] = {}
    for row in log.rows():
        if isinstance(row.fields, ExampleError):
            raise DataError(f"{file} {row.location}: {row.fields}")
        values = dict(row.fields)
        if missing := [key for key in ("id", column.lstrip("-")) if key not in values]:
            raise DataError(f"{file} {row.location}: has no {missing[0]}, but {', '.join(values)}")
        if (key := str(values["id"])) in scores:
            raise DataError(f"{file} {row.location}: id {key} occurs twice")
        scores[key] = _read_score(values, column, f"{file} {row.location}")
    ids = [str(row.example.id) for row in setup.rows]
    lost = [key for key in ids if key not in scores]
    if lost or len(set(ids)) < len(ids):
        raise DataError(f"{file}: misses {len(lost)} of {len(ids)} rows {lost[:5]}, or ids repeat")
    about = f"{Path(file).name}:{column}, {(log.sha256() or '')[:12]}"
    return System(about, lambda example: scores[str(example.id)], timed=False)


def _published(judge: str, setup: Setup) -> System:
    threshold = _THRESHOLDS.get(judge)
    known = {
        row.example: published.faithfulness
        for row in setup.rows
        for published in row.published
        if published.judge == judge and published.faithfulness is not None
    }

    def score(example: RagExample) -> Score:
        if (value := known.get(example)) is None:
            raise ExampleError("the data holds no score for this row", "not_stored")
        return Score(value) if threshold is None else Score.at(threshold, value)

    return System(f"published scores of {judge}, as the data holds them", score, timed=False)


def _read_score(values: Mapping[str, Any], column: str, where: str) -> Score:
    value = values[column.lstrip("-")]
    try:
        # Tools such as RAGAS write NaN, the only value that differs from itself, for a failure.
        if value is None or value == "" or value != value:
            return Score(None, failed="missing")
        return Score(1 - float(value) if column.startswith("-") else float(value))
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: {column} is {value!r}, not a number in [0, 1]") from error
