"""Every row is counted once: scores, failures, verdicts and groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.report.rows import make_row
from trivet.errors import DataError
from trivet.records import FailedEvaluation
from trivet.report.tally import tally
from trivet.report.wording import ABSTAINS, NO_RESPONSE, SUPPORTED, TO_CHECK, UNSUPPORTED


def test_scores_failures_and_kinds() -> None:
    failed = FailedEvaluation("x", "empty_contexts", "has no context")
    rows = [
        make_row(1, 0.2),
        make_row(2, None),
        make_row(3, error=failed),
        make_row(4, 0.8, relevance="high"),
        make_row(7, 0.8, texts=False),
    ]
    counted = tally(rows)
    assert counted.rows.tolist() == [1, 2, 3, 4, 7]
    assert counted.failed.tolist() == [False, False, True, True, False]
    np.testing.assert_array_equal(counted.scores["faithfulness"], [0.2, *[np.nan] * 3, 0.8])
    assert counted.kinds[UNSUPPORTED].tolist() == [True, False, False, False, False]
    assert counted.codes == {"empty_contexts": 1, "bad_verdict": 1}
    assert counted.failures[0] == (3, failed)
    assert "relevance is 'high'" in counted.failures[1][1].message
    assert (counted.mean("relevance").n, counted.with_texts) == (3, 4)
    # Four rows have the same question; the row without texts has its own group.
    assert len(set(counted.groups[:4])) == 1 and counted.groups[4] not in counted.groups[:4]


def test_columns_divide_the_rows() -> None:
    rows = [
        make_row(
            n,
            metadata={"model": "big" if n % 3 else "small", "name": f"n{n}", "same": 1}
            | ({"late": n % 2 == 0} if n > 20 else {}),
        )
        for n in range(30)
    ]
    counted = tally(rows)
    by_name = {column.name: column for column in counted.columns}
    assert list(by_name) == ["model", "late"] and list(counted.wide) == ["name"]
    assert by_name["model"].values == ["big", "small"]  # the frequent one first
    assert by_name["model"].codes.tolist() == [0 if n % 3 else 1 for n in range(30)]
    assert by_name["late"].codes[:21].tolist() == [-1] * 21
    assert set(by_name["late"].values) == {"true", "false"}
    asked = tally(rows, by=("same",)).columns
    assert [column.values for column in asked] == [["1"]]
    with pytest.raises(DataError, match=r"'prompt' is in no row; columns .*: model, name, same"):
        tally(rows, by=("prompt",))
    with pytest.raises(DataError, match="column 'name' has more than 20 values"):
        tally(rows, by=("name",))
    with pytest.raises(DataError, match="there is no row to report"):
        tally([])


@pytest.mark.parametrize(
    ("faithfulness", "fields", "kinds"),
    [
        (0.9, {"adherent": True}, {SUPPORTED}),
        (0.9, {"adherent": False}, {UNSUPPORTED}),
        (0.9, {"adherent": True, "to_check": [{"start": 0}]}, {TO_CHECK}),
        (0.4, {"adherent": False, "to_check": [{"start": 0}]}, {UNSUPPORTED}),
        (0.4, {"adherent": None}, {UNSUPPORTED}),
        (0.6, {"adherent": None, "threshold": 0.7}, {UNSUPPORTED}),
        (0.7, {"adherent": None, "threshold": 0.7}, {SUPPORTED}),
        (None, {"adherent": True, "abstains": True}, {ABSTAINS}),
        (None, {"adherent": None, "threshold": 0.5}, {NO_RESPONSE}),
        (None, {"adherent": None}, set()),
    ],
)
def test_kinds_of_answers(
    faithfulness: float | None, fields: dict[str, Any], kinds: set[str]
) -> None:
    counted = tally([make_row(1, faithfulness, **fields)])
    assert {kind for kind, members in counted.kinds.items() if members[0]} == kinds
