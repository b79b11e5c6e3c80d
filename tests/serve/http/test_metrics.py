"""Prometheus metrics."""

from __future__ import annotations

import dataclasses

from prometheus_client.parser import text_string_to_metric_families

from trivet.evaluation.evaluator import Evaluator
from trivet.records import FailedEvaluation
from trivet.serve.http.batcher import BatcherState, Predictions, StageSeconds
from trivet.serve.http.prometheus_metrics import Metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """Return the value of one series, as a scrape reads it."""
    for family in text_string_to_metric_families(metrics.page().decode()):
        for sample in family.samples:
            if (sample.name, sample.labels) == (name, labels):
                return sample.value
    return None


def test_predictions_are_counted(embedded: Evaluator) -> None:
    metrics = Metrics()
    verdict = embedded.evaluate("When?", ["It was built in 1884."], "In 1884.")
    cut = dataclasses.replace(verdict, cut_question_tokens=3, faithfulness=0.95, relevance=None)
    failed = FailedEvaluation("q", "backend_failed", "it broke")
    seconds = StageSeconds(tokenize=0.002, queue=0.03, infer=0.2, finish=0.0005)
    metrics.evaluated(Predictions((verdict, cut, failed), seconds, 3))
    assert value(metrics, "trivet_cut_total") == 1
    assert value(metrics, "trivet_failed_examples_total", code="backend_failed") == 1
    assert value(metrics, "trivet_windows_per_request_sum") == 3
    assert value(metrics, "trivet_stage_seconds_sum", stage="infer") == 0.2
    assert value(metrics, "trivet_stage_seconds_bucket", stage="finish", le="0.001") == 1
    assert value(metrics, "trivet_score_count", score="faithfulness") == 2
    assert value(metrics, "trivet_score_count", score="relevance") == 1
    in_bucket = {"score": "faithfulness", "le": "1.0"}
    assert value(metrics, "trivet_score_bucket", **in_bucket) == 2
    assert value(metrics, "trivet_score_bucket", **(in_bucket | {"le": "0.9"})) in (0, 1)


def test_calls_and_refusals_are_counted_by_reason() -> None:
    metrics = Metrics()
    metrics.called(4, 0.02)
    for reason in ("requests", "windows", "deadline", "draining", "cancelled", "windows"):
        metrics.rejected(reason)
    for status in (200, 200, 400, 401, 413, 422, 429, 500, 503, 504):
        metrics.answered("/v1/evaluate", status)
    assert value(metrics, "trivet_call_windows_sum") == 4
    assert value(metrics, "trivet_call_seconds_count") == 1
    route = {"route": "/v1/evaluate"}
    assert value(metrics, "trivet_requests_total", code="200", **route) == 2
    # 429, 503 and 504 are the batcher's, which has counted them by reason already.
    rejected = {"requests": 1, "windows": 2, "invalid": 2, "auth": 1, "too_large": 1, "slow": 0}
    for reason, number in rejected.items():
        assert value(metrics, "trivet_rejected_total", reason=reason) == number


def test_the_queue_is_read_at_each_scrape() -> None:
    metrics = Metrics()
    state = BatcherState(requests=2, windows=7, call_seconds=None, draining=False)
    now = [state]
    metrics.read_queue_from(lambda: now[0])
    assert value(metrics, "trivet_queue_windows") == 7
    now[0] = dataclasses.replace(state, windows=0, requests=1)
    assert value(metrics, "trivet_queue_windows") == 0
    assert value(metrics, "trivet_queue_requests") == 1


def test_two_apps_have_separate_metrics() -> None:
    first, second = Metrics(), Metrics()
    first.describe(version="1.2", bundle="mine", backend="onnxruntime", precision="int8")
    first.rejected("windows")
    assert value(second, "trivet_rejected_total", reason="windows") == 0
    facts = {"version": "1.2", "bundle": "mine", "backend": "onnxruntime", "precision": "int8"}
    assert value(first, "trivet_build_info", **facts) == 1
    assert b"trivet_build_info" not in second.page()
