"""Rows of any kind as input, DataFrames as output, and event loops that stay free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pandas
import polars
import pyarrow
import pytest

import trivet
from trivet.errors import DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation, RagExample

ROWS = [
    {"id": f"r{n}", "user_input": "When?", "docs": [f"Built in {n}."], "answer": f"In {n}."}
    for n in (1817, 1884, 1901)
]
TABLES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "dictionaries": list,
    "pandas": pandas.DataFrame,
    "pandas of arrays": lambda rows: pandas.DataFrame(
        [{**row, "docs": np.array(row["docs"], dtype=object)} for row in rows]
    ),
    "polars": polars.DataFrame,
    "pyarrow": pyarrow.Table.from_pylist,
    "datasets": datasets.Dataset.from_list,
    "iterable dataset": lambda rows: datasets.Dataset.from_list(rows).to_iterable_dataset(),
    "objects": lambda rows: [
        {**row, "docs": [SimpleNamespace(page_content=text) for text in row["docs"]]}
        for row in rows
    ],
}


@pytest.fixture
def verdicts(judge: Evaluator) -> list[Any]:
    examples = [
        RagExample("When?", tuple(row["docs"]), str(row["answer"]), str(row["id"])) for row in ROWS
    ]
    return list(judge.evaluate_many(examples))


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_rows_of_any_kind_have_the_verdicts_of_their_examples(
    judge: Evaluator, verdicts: list[Any], table: Any
) -> None:
    assert list(judge.evaluate_many(table(ROWS))) == verdicts


def test_a_missing_value_is_empty_and_costs_one_row_at_most(judge: Evaluator) -> None:
    frame = pandas.DataFrame(ROWS)
    frame.loc[0, "answer"] = np.nan
    frame["docs"] = [pandas.NA, *frame["docs"][1:]]
    frame.loc[1, "user_input"] = None
    first, second, third = judge.evaluate_many(frame)
    assert getattr(first, "code", "") == "empty_contexts"
    assert isinstance(second, Evaluation) and isinstance(third, Evaluation)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("log.jsonl", r"not a value of type str; to evaluate a file, use `trivet evaluate FILE`"),
        (Path("log.jsonl"), "to evaluate a file"),
        ({"question": "q"}, r"type dict; put it in a list: evaluate_many\(\[row\]\)"),
        (
            datasets.DatasetDict(test=datasets.Dataset.from_list(ROWS)),
            r"type DatasetDict; choose a split: evaluate_many\(data\['test'\]\)",
        ),
        (7, r'type int; call evaluate_many\(\[\{"question"'),
        ([("q", "c", "r")], r'row 1 is a value of type tuple.*evaluate_many\(\[\{"question"'),
    ],
)
def test_a_wrong_type_is_named_with_the_right_call(
    judge: Evaluator, rows: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        list(judge.evaluate_many(rows))


def test_all_missing_columns_of_a_table_are_named_before_anything_runs(judge: Evaluator) -> None:
    frame = pandas.DataFrame(ROWS).rename(columns={"answer": "said", "user_input": "asked"})
    with pytest.raises(DataError, match=r"has no question and no response .*found id, asked, docs"):
        judge.evaluate_many(frame)
    names = {"question": "asked", "response": "said"}
    assert len(list(judge.evaluate_many(frame, mapping=names))) == 3
    twice = pandas.concat([frame, frame[["asked"]]], axis=1)
    with pytest.raises(DataError, match="column asked occurs twice"):
        judge.evaluate_many(twice, mapping=names)


def test_a_bad_row_fails_in_its_place(judge: Evaluator) -> None:
    rows: list[Any] = [ROWS[0], {"question": "q"}, 7, ROWS[1]]
    results = list(judge.evaluate_many(rows))
    codes = [getattr(result, "code", None) for result in results]
    assert codes == [None, "missing_field", "bad_row", None]
    assert "row 2: has no contexts and no response" in getattr(results[1], "message", "")


def test_results_make_a_dataframe(judge: Evaluator) -> None:
    rows = [*ROWS, {**ROWS[0], "answer": ["a list"]}]
    frame = judge.evaluate_many(rows).to_pandas()
    assert list(frame["id"]) == ["r1817", "r1884", "r1901", "r1817"]
    assert frame["faithfulness"].dtype == float and frame["faithfulness"].isna().sum() == 1
    assert list(frame["error.code"].dropna()) == ["bad_field"]
    pandas.testing.assert_frame_equal(trivet.to_frame(judge.evaluate_many(rows)), frame)
    assert list(trivet.to_frame([]).columns) == list(frame.columns)


def test_the_event_loop_stays_free_while_the_backend_runs(
    judge: Evaluator, verdicts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stream() -> AsyncIterator[dict[str, Any]]:
        for row in ROWS:
            yield row

    async def run() -> None:
        loop, backend = asyncio.get_running_loop(), judge.backend
        plain = backend.run

        def only_when_the_loop_turns(windows: Any) -> Any:
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(timeout=30)
            return plain(windows)

        monkeypatch.setattr(backend, "run", only_when_the_loop_turns)
        verdict = await judge.aevaluate("When?", "Built in 1817.", "In 1817.", id="r1817")
        assert verdict == judge_alone
        for rows in (ROWS, stream()):
            assert [result async for result in judge.aevaluate_many(rows)] == verdicts

    judge_alone = judge.evaluate("When?", "Built in 1817.", "In 1817.", id="r1817")
    asyncio.run(run())


def test_a_stream_that_breaks_gives_the_results_before(judge: Evaluator) -> None:
    async def broken() -> AsyncIterator[dict[str, Any]]:
        for number in range(70):
            yield {**ROWS[0], "id": number}
        raise OSError("the source broke")

    async def run() -> list[Any]:
        results = []
        with pytest.raises(OSError, match="the source broke"):
            async for result in judge.aevaluate_many(broken()):
                results.append(result)
        return results

    assert len(asyncio.run(run())) == 64
    with pytest.raises(TypeError, match="type str"):
        asyncio.run(anext(judge.aevaluate_many("log.jsonl")))
