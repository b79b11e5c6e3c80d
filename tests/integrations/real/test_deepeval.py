"""DeepEval gates with our metrics, in ``assert_test`` and in ``evaluate``."""

from __future__ import annotations

from typing import Any

import pytest

from trivet.integrations.deepeval import metrics

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def deepeval(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "1")
    monkeypatch.chdir(tmp_path)  # it writes a folder of its own
    return pytest.importorskip("deepeval")


def cases(rows: list[dict[str, Any]]) -> list[Any]:
    from deepeval.test_case import LLMTestCase

    return [
        LLMTestCase(
            input=row["question"],
            actual_output=row["response"],
            retrieval_context=row["contexts"],
        )
        for row in rows
    ]


def test_a_supported_answer_passes_and_an_unsupported_one_does_not(
    deepeval: Any, judge: Any, rows: list[dict[str, Any]]
) -> None:
    supported, unsupported, _ = cases(rows)
    deepeval.assert_test(supported, metrics(judge))
    with pytest.raises(AssertionError, match="trivet faithfulness"):
        deepeval.assert_test(unsupported, metrics(judge))
    with pytest.raises(AssertionError, match="trivet context_relevance"):
        deepeval.assert_test(supported, metrics(judge, {"context_relevance": 0.99}))


def test_several_cases_are_judged_once_each(
    deepeval: Any, judge: Any, rows: list[dict[str, Any]], verdicts: list[Any]
) -> None:
    result = deepeval.evaluate(cases(rows), metrics=metrics(judge))
    by_input = {test.input: test for test in result.test_results}
    for row, verdict in zip(rows, verdicts, strict=True):
        data = {metric.name: metric for metric in by_input[row["question"]].metrics_data}
        assert data["trivet faithfulness"].score == pytest.approx(verdict.faithfulness, abs=0.02)
        assert data["trivet faithfulness"].success == verdict.adherent
        assert data["trivet utilization"].success is None
        assert data["trivet utilization"].reason.startswith("by context: ")
    assert sum(judge.calls) == len(rows)
