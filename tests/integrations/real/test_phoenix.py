"""Phoenix evaluates a frame with our evaluator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from trivet.integrations.phoenix import evaluator

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_frame_gets_a_column_for_each_score(
    judge: Any, rows: list[dict[str, Any]], expected: Callable[[str], Any]
) -> None:
    evals = pytest.importorskip("phoenix.evals")
    import pandas

    frame = evals.evaluate_dataframe(pandas.DataFrame(rows), [evaluator(judge)])
    values = [
        json.loads(cell) if isinstance(cell, str) else cell for cell in frame["utilization_score"]
    ]
    assert [value["score"] for value in values] == expected("utilization")
    assert sum(judge.calls) == len(rows)


def test_tasks_that_ask_at_a_time_are_judged_together(
    judge: Any, rows: list[dict[str, Any]], expected: Callable[[str], Any]
) -> None:
    evals = pytest.importorskip("phoenix.evals")
    import pandas

    renamed = pandas.DataFrame(rows).rename(columns={"question": "prompt"})
    asked = evals.async_evaluate_dataframe(renamed, [evaluator(judge, {"question": "prompt"})])
    frame = asyncio.run(asked)
    values = [
        json.loads(cell) if isinstance(cell, str) else cell for cell in frame["faithfulness_score"]
    ]
    assert [value["score"] for value in values] == expected("faithfulness")
    assert values[1]["explanation"].startswith("unsupported: ")
