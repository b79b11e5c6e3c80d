"""Predictions of other tools are taken by id, and refused where they do not fit the rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.data.examples import write_parquet
from tests.peers.rows import row
from trivet.errors import DataError
from trivet.peers.predictions import read_foreign
from trivet.records import LabelledExample

ROWS = [row(number) for number in range(7)]
GOOD = [{"id": f"id-{number}", "score": number / 10, "more": "x"} for number in range(9)]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("column", "third"), [("score", 0.2), ("-score", 0.8)])
def test_scores_are_taken_by_id_in_any_order(tmp_path: Path, column: str, third: float) -> None:
    file = write(tmp_path / "a:b.jsonl", GOOD[::-1])
    found = read_foreign("x", f"{file}:{column}", ROWS)
    assert [len(each) for each in found.repeats] == [7]
    assert found.repeats[0][2].faithfulness == pytest.approx(third)
    assert found.repeats[0][2].hallucinated is None


def test_parquet_is_read_and_null_is_a_failure(tmp_path: Path) -> None:
    rows = [one | {"score": None} if n == 3 else one for n, one in enumerate(GOOD)]
    write_parquet(tmp_path / "p.parquet", *rows)
    found = read_foreign("x", f"{tmp_path / 'p.parquet'}:score", ROWS).repeats[0]
    assert [one.failed for one in found] == [None, None, None, "missing", None, None, None]


@pytest.mark.parametrize("column", ["score", "-score"])
def test_not_a_number_is_a_failure(tmp_path: Path, column: str) -> None:
    rows = [one | {"score": float("nan")} if n == 3 else one for n, one in enumerate(GOOD)]
    file = write(tmp_path / "p.jsonl", rows)
    found = read_foreign("x", f"{file}:{column}", ROWS).repeats[0]
    assert [one.failed for one in found] == [None, None, None, "missing", None, None, None]


@pytest.mark.parametrize(
    ("rows", "column", "message"),
    [
        (GOOD[2:], "score", "misses 2 of 7 rows, with the ids id-0, id-1"),
        ([], "score", r"misses 7 of 7 rows, with the ids id-0, id-1, id-2, id-3, id-4, \.\.\."),
        ([*GOOD, GOOD[0]], "score", "line 10: id id-0 occurs twice"),
        (GOOD, "points", "line 1: has no points, but id, score, more"),
        ([{"score": 1}], "score", "line 1: has no id, but score"),
        ([{"id": "id-0", "score": 7}], "score", r"score is 7, not a number in \[0, 1\]"),
        ([{"id": "id-0", "score": "high"}], "score", "score is 'high', not a number"),
        (GOOD, "", "must be NAME=FILE:COLUMN"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(
    tmp_path: Path, rows: list[dict[str, Any]], column: str, message: str
) -> None:
    file = write(tmp_path / "p.jsonl", rows)
    with pytest.raises(DataError, match=message):
        read_foreign("x", f"{file}:{column}", ROWS)


def renamed(*ids: str | None) -> list[LabelledExample]:
    return [
        replace(one, example=replace(one.example, id=name))
        for one, name in zip(ROWS, ids, strict=False)
    ]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["id-0", "id-1", "id-0", "id-2", "id-2"], r"4 of 5 share theirs \(id-0, id-2\); give"),
        (["id-0", None, "id-2", None], r"2 of 4 have no id \(row 2, row 4\); give each row"),
        ([None, "id-1", "id-1"], r"1 of 3 have no id \(row 1\) and 2 of 3 share theirs \(id-1\)"),
        ([None] * 7, r"7 of 7 have no id \(row 1, row 2, row 3, row 4, row 5, \.\.\.\)"),
    ],
)
def test_rows_that_their_ids_do_not_tell_apart_are_refused(
    tmp_path: Path, ids: list[str | None], message: str
) -> None:
    file = write(tmp_path / "p.jsonl", GOOD)
    with pytest.raises(
        DataError, match=f"predictions x: scores are given to ROWS by id.*{message}"
    ):
        read_foreign("x", f"{file}:score", renamed(*ids))
