"""Rows under any of the known names, with contexts that are objects of any tool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.integrations.conftest import Rows
from trivet.errors import DataError, ExampleError
from trivet.integrations.judge import example, judge_rows, read_row
from trivet.records import Evaluation, FailedEvaluation


def test_arrays_none_and_mapped_names_are_read() -> None:
    row = read_row(
        {"id": 7, "prompt": "q", "contexts": np.array(["a", "b"], dtype=object), "response": None},
        {"question": "prompt"},
    )
    assert (row.id, row.question, row.contexts, row.response) == ("7", "q", ("a", "b"), "")
    assert example(None, ("a",), None).question == ""
    with pytest.raises(DataError, match="no field 'prompt'"):
        read_row({}, {"prompt": "question"})


MISSING = (
    r"has no contexts .*; found question, response\); name .* with mapping={\"contexts\": 'NAME'}"
)


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"question": "q", "response": "r"}, "missing_field", MISSING),
        ({"question": ["a"], "contexts": ["a"], "response": "r"}, "bad_field", "question is"),
        ({"question": "q", "contexts": [3], "response": "r"}, "bad_field", r"contexts\[0\] is a n"),
    ],
)
def test_an_unreadable_row_is_refused_with_its_reason(fields: Any, code: str, message: str) -> None:
    with pytest.raises(ExampleError, match=message) as caught:
        read_row(fields)
    assert caught.value.code == code


def test_rows_are_evaluated_together_and_failures_stay_in_place(judge: Any, rows: Rows) -> None:
    results = judge_rows(judge, [rows[0], {"question": "q"}, rows[1]], threshold=1.0)
    assert [type(result) for result in results] == [Evaluation, FailedEvaluation, Evaluation]
    assert judge.calls == [2]
    assert isinstance(results[0], Evaluation) and results[0].adherent is False
