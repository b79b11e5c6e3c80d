"""RAGAS 0.4 evaluates a data set with our metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trivet.integrations.ragas import metrics

pytestmark = pytest.mark.filterwarnings("ignore")


def samples(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {"question": "user_input", "contexts": "retrieved_contexts", "response": "response"}
    return [{names[name]: value for name, value in row.items()} for row in rows]


def test_a_data_set_is_scored_with_one_pass_a_row(
    judge: Any, rows: list[dict[str, Any]], expected: Callable[[str], Any]
) -> None:
    ragas = pytest.importorskip("ragas")
    data = ragas.EvaluationDataset.from_list(samples(rows))
    frame = ragas.evaluate(data, metrics=metrics(judge), show_progress=False).to_pandas()
    assert list(frame["trivet_faithfulness"]) == expected("faithfulness")
    assert list(frame["trivet_context_relevance"]) == expected("relevance")
    assert list(frame["trivet_utilization"]) == expected("utilization")
    assert list(frame["trivet_completeness"]) == expected("completeness")
    assert sum(judge.calls) == len(rows)


def test_a_sample_that_cannot_be_judged_raises(judge: Any, rows: list[dict[str, Any]]) -> None:
    ragas = pytest.importorskip("ragas")
    (sample,) = samples([{**rows[0], "contexts": []}])
    (metric,) = metrics(judge, ["faithfulness"])
    with pytest.raises(ValueError, match="there are no contexts"):
        metric.single_turn_score(ragas.SingleTurnSample(**sample))
