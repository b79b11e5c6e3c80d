"""What the server counts, for Prometheus. Every app has its own registry."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

from trivet.records import Evaluation, FailedEvaluation
from trivet.serve.scheduling.predictions import BatcherState, Judged
from trivet.verdict_json import SCORES

STAGES = ("tokenize", "queue", "infer", "finish")

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WINDOWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_TENTHS = tuple(tenth / 10 for tenth in range(1, 11))

# The batcher counts its own refusals, by reason; these are the statuses of all others.
_OF_BATCHER = ("requests", "windows", "time", "deadline", "draining", "cancelled")
_REASONS = {
    400: "invalid",
    401: "auth",
    408: "slow",
    413: "too_large",
    422: "invalid",
    431: "too_large",
}


class Counters:
    """Counts requests, refusals, times and scores; is the batcher's ``Watch``.

    Attributes:
        registry: Where the metrics stand.
    """

    def __init__(self) -> None:
        """Make a registry of its own, so that two apps in one process count apart."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = self._counter("requests", "Requests answered.", "route", "code")
        self._rejected = self._counter("rejected", "Requests without an answer.", "reason")
        self._failed = self._counter("failed_examples", "Examples without a verdict.", "code")
        self._cut = self._counter("cut", "Verdicts on a question that was cut to fit.")
        self._call_windows = self._histogram("call_windows", "Windows of an engine call.", _WINDOWS)
        self._call_seconds = self._histogram("call_seconds", "Time of an engine call.", _SECONDS)
        self._request_windows = self._histogram(
            "windows_per_request", "Windows of a request.", _WINDOWS
        )
        self._stages = self._histogram("stage_seconds", "Time of a stage.", _SECONDS, "stage")
        self._scores = self._histogram("score", "Scores of verdicts.", _TENTHS, "score")
        # Named before they happen: an alert on a series that is not there yet sees no rise.
        for reason in {*_OF_BATCHER, *_REASONS.values(), "connections"}:
            self._rejected.labels(reason)
        for stage in STAGES:
            self._stages.labels(stage)
        for score in SCORES:
            self._scores.labels(score)

    def called(self, windows: int, seconds: float) -> None:
        """Count an engine call."""
        self._call_windows.observe(windows)
        self._call_seconds.observe(seconds)

    def rejected(self, reason: str) -> None:
        """Count a request that got no answer."""
        self._rejected.labels(reason).inc()

    def answered(self, route: str, status: int) -> None:
        """Count a request, and why it was refused where the batcher never saw it.

        Args:
            route: The path as the router has it, or a name for all that it does not know.
            status: Of the answer.
        """
        self._requests.labels(route, str(status)).inc()
        if status in _REASONS:
            self.rejected(_REASONS[status])

    def judged(self, judged: Judged) -> None:
        """Count what the batcher did for a request: its times, its windows, its scores."""
        for stage in STAGES:
            self._stages.labels(stage).observe(getattr(judged.seconds, stage))
        self._request_windows.observe(judged.windows)
        for result in judged.results:
            if isinstance(result, FailedEvaluation):
                self._failed.labels(result.code).inc()
            else:
                self._verdict(result)

    def describe(self, **facts: str) -> None:
        """State what answers: versions and names, as labels of ``trivet_build_info``."""
        info = Gauge("trivet_build_info", "What answers.", tuple(facts), registry=self.registry)
        info.labels(**facts).set(1)

    def read_queue_from(self, state: Callable[[], BatcherState]) -> None:
        """Show the queue as it is whenever somebody looks."""
        windows = Gauge("trivet_queue_windows", "Laid out and not yet run.", registry=self.registry)
        windows.set_function(lambda: state().windows)
        requests = Gauge(
            "trivet_queue_requests", "Accepted and unanswered.", registry=self.registry
        )
        requests.set_function(lambda: state().requests)

    def page(self, accept: str | None) -> tuple[bytes, str]:
        """Return all metrics as text, and the text's media type.

        Args:
            accept: The client's ``Accept`` header: OpenMetrics where it asks for it.
        """
        try:
            write, media_type = choose_encoder(accept or "")
        except (TypeError, ValueError):  # the library trips over a version that is no number
            write, media_type = choose_encoder("")
        return write(self.registry), media_type

    def _verdict(self, verdict: Evaluation) -> None:
        if verdict.cut_question_tokens:
            self._cut.inc()
        for score in SCORES:
            value = getattr(verdict, score)
            if value is not None:
                self._scores.labels(score).observe(value)

    def _counter(self, name: str, said: str, *labels: str) -> Counter:
        return Counter(f"trivet_{name}", said, labels, registry=self.registry)

    def _histogram(
        self, name: str, said: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"trivet_{name}", said, labels, buckets=buckets, registry=self.registry)
