"""Prometheus metrics; each app has its own registry."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from trivet.records import FailedEvaluation
from trivet.serve.http.batcher import BatcherState, Predictions
from trivet.verdict_json import SCORES

STAGES = ("tokenize", "queue", "infer", "finish")

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WINDOWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_TENTHS = tuple(tenth / 10 for tenth in range(1, 11))

# Reasons that the batcher reports itself, and the reasons of other statuses.
_BATCHER_REASONS = ("requests", "windows", "time", "deadline", "draining", "cancelled")
_REASONS = {400: "invalid", 401: "auth", 408: "slow", 413: "too_large", 422: "invalid"}


class Metrics:
    """Counters of requests, refusals, times and scores; a ``Watch`` of the batcher."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = self._counter("requests", "Answered requests.", "route", "code")
        self._rejected = self._counter("rejected", "Refused requests.", "reason")
        self._failed = self._counter("failed_examples", "Failed examples.", "code")
        self._cut = self._counter("cut", "Verdicts on a question that was cut to fit a window.")
        self._call_windows = self._histogram("call_windows", "Windows of a backend call.", _WINDOWS)
        self._call_seconds = self._histogram("call_seconds", "Seconds of a backend call.", _SECONDS)
        self._request_windows = self._histogram(
            "windows_per_request", "Windows of a request.", _WINDOWS
        )
        self._sentences = self._counter("sentences", "Sentences of responses.", "supported")
        self._stages = self._histogram("stage_seconds", "Seconds of a stage.", _SECONDS, "stage")
        self._scores = self._histogram("score", "Scores of verdicts.", _TENTHS, "score")
        # Created at 0, so that an alert sees the first rise.
        for reason in {*_BATCHER_REASONS, *_REASONS.values()}:
            self._rejected.labels(reason)
        for stage in STAGES:
            self._stages.labels(stage)
        for score in SCORES:
            self._scores.labels(score)
        for supported in ("yes", "no"):
            self._sentences.labels(supported)

    def called(self, windows: int, seconds: float) -> None:
        """Count an answered backend call."""
        self._call_windows.observe(windows)
        self._call_seconds.observe(seconds)

    def rejected(self, reason: str) -> None:
        """Count a refused request."""
        self._rejected.labels(reason).inc()

    def answered(self, route: str, status: int) -> None:
        """Count an answered request, and its refusal where the batcher does not count it."""
        self._requests.labels(route, str(status)).inc()
        if status in _REASONS:
            self.rejected(_REASONS[status])

    def evaluated(self, predictions: Predictions) -> None:
        """Count the times, windows and scores of a request."""
        for stage in STAGES:
            self._stages.labels(stage).observe(getattr(predictions.seconds, stage))
        self._request_windows.observe(predictions.windows)
        for result in predictions.results:
            if isinstance(result, FailedEvaluation):
                self._failed.labels(result.code).inc()
                continue
            if result.cut_question_tokens:
                self._cut.inc()
            for sentence in result.sentences:
                label = {True: "yes", False: "no", None: "no_claim"}[sentence.supported]
                self._sentences.labels(label).inc()
            for score in SCORES:
                if (value := getattr(result, score)) is not None:
                    self._scores.labels(score).observe(value)

    def describe(self, **facts: str) -> None:
        """Set the labels of ``trivet_build_info``: versions and names."""
        info = Gauge("trivet_build_info", "Versions.", tuple(facts), registry=self.registry)
        info.labels(**facts).set(1)

    def read_queue_from(self, state: Callable[[], BatcherState]) -> None:
        """Read the gauges of the queue from a batcher."""
        windows = Gauge("trivet_queue_windows", "Queued windows.", registry=self.registry)
        windows.set_function(lambda: state().windows)
        requests = Gauge("trivet_queue_requests", "Unanswered requests.", registry=self.registry)
        requests.set_function(lambda: state().requests)

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"trivet_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"trivet_{name}", text, labels, buckets=buckets, registry=self.registry)
