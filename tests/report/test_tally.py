"""Every row is counted once: scores, failures, groups; nothing shrinks in silence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trivet.records import DataError, FailedEvaluation
from trivet.report.tally import MADE_UP, Limits, tally
from trivet.report.verdict_files import VerdictRow

MakeRow = Callable[..., VerdictRow]


def test_scores_failures_and_kinds(make_row: MakeRow) -> None:
    failed = FailedEvaluation("x", "empty_contexts", "has no context")
    rows = [
        make_row(1, 0.2),
        make_row(2, None),
        make_row(3, error=failed),
        make_row(4, 0.8, relevance="high"),
        make_row(7, 0.8, texts=False),
    ]
    found = tally(rows, Limits())
    assert found.rows.tolist() == [1, 2, 3, 4, 7]
    assert found.failed.tolist() == [False, False, True, True, False]
    assert np.array_equal(
        found.scores["faithfulness"], [0.2, np.nan, np.nan, np.nan, 0.8], equal_nan=True
    )
    assert found.kinds[MADE_UP].tolist() == [True, False, False, False, False]
    assert found.codes == {"empty_contexts": 1, "bad_verdict": 1}
    assert found.failures[0] == (3, failed)
    assert "relevance is 'high'" in found.failures[1][1].message
    assert (found.mean("relevance").n, found.with_texts) == (3, 4)
    # One question, asked four times; the row without texts stands alone.
    assert len(set(found.groups[:4])) == 1 and found.groups[4] not in found.groups[:4]


def test_columns_are_what_rows_can_be_divided_by(make_row: MakeRow) -> None:
    rows = [
        make_row(
            n,
            metadata={"model": "big" if n % 3 else "small", "name": f"n{n}", "same": 1}
            | ({"late": n % 2 == 0} if n > 20 else {}),
        )
        for n in range(30)
    ]
    found = tally(rows, Limits())
    by_name = {column.name: column for column in found.columns}
    assert list(by_name) == ["model", "late"] and list(found.wide) == ["name"]
    assert by_name["model"].values == ["big", "small"]  # the frequent one first
    assert by_name["model"].codes.tolist() == [0 if n % 3 else 1 for n in range(30)]
    assert by_name["late"].codes[:21].tolist() == [-1] * 21
    assert set(by_name["late"].values) == {"true", "false"}
    asked = tally(rows, Limits(), by=("same",)).columns
    assert [column.values for column in asked] == [["1"]]


def test_a_column_that_cannot_divide_is_refused_by_name(make_row: MakeRow) -> None:
    rows = [make_row(n, metadata={"name": f"n{n}", "model": "m"}) for n in range(30)]
    with pytest.raises(DataError, match=r"column 'prompt' is in no row; columns .*: name, model"):
        tally(rows, Limits(), by=("prompt",))
    with pytest.raises(DataError, match="column 'name' has more than 20 values"):
        tally(rows, Limits(), by=("name",))
    with pytest.raises(DataError, match="there is no row to report"):
        tally([], Limits())
