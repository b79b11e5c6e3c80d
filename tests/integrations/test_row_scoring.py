"""Score columns of rows, as the workers of Ray add them."""

from __future__ import annotations

import functools
import json
import pickle
from typing import Any

import pytest

import trivet
from tests.integrations.conftest import Rows
from trivet.errors import DataError
from trivet.integrations.row_scoring import COLUMNS, RowActor, RowScoring


@pytest.fixture(scope="session")
def scoring() -> RowScoring:
    """Return a description that was pickled."""
    scoring: RowScoring = pickle.loads(pickle.dumps(RowScoring.of(None, None, "t_")))
    return scoring


def test_a_row_has_its_verdict_or_its_error(scoring: RowScoring, rows: Rows, expected: Any) -> None:
    scored = scoring.score([*rows, {**rows[0], "contexts": []}])
    assert scored.keys() == scoring.columns(["question"]).keys()
    assert len(scored) == len(COLUMNS)
    assert scored["t_relevance"][:3] == expected("relevance")
    assert scored["t_error"][:3] == [None] * 3
    assert scored["t_error"][3].startswith("empty_contexts: there are no contexts")
    assert [scored[name][3] for name in scored if name != "t_error"] == [None] * 9
    assert json.loads(scored["t_verdict"][0])["relevance"] == scored["t_relevance"][0]
    for name, kind in scoring.columns([]).items():
        assert all(value is None or type(value) is kind for value in scored[name]), name


def test_existing_columns_are_not_overwritten(scoring: RowScoring) -> None:
    with pytest.raises(DataError, match="columns t_error, t_verdict exist already; choose"):
        scoring.columns(["t_verdict", "t_error", "question"])


def test_another_judge_is_loaded(rows: Rows) -> None:
    load = functools.partial(trivet.Evaluator, threads=1, max_characters=10)
    (error,) = RowScoring.of(load, None, "").score(rows[:1])["error"]
    assert error.startswith("too_long: ")
    scored = RowScoring.of(None, None, "", threshold=1.0).score(rows[:1])
    assert (scored["adherent"], scored["abstains"], scored["to_check"]) == ([False], [False], [0])
    with pytest.raises(DataError, match="cannot be sent to another process"):
        RowScoring.of(lambda: trivet.Evaluator(), None, "")


def test_an_actor_adds_columns_to_a_table(scoring: RowScoring, rows: Rows) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    failures = pyarrow.Table.from_pylist([{**rows[0], "contexts": [""]}])
    actor = RowActor(scoring)
    table = actor(failures)
    assert table.column_names == ["question", "contexts", "response", *scoring.columns([])]
    # A batch of failures alone has the types of any other: blocks can be put together.
    assert table.schema == actor(pyarrow.Table.from_pylist(rows)).schema
