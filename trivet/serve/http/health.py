"""Health of the server: probes, the canary that checks the backend, and the metrics route.

The canary is a stored example that goes through the batcher like a request. The backend is healthy
as long as it answers calls; a long queue is not a fault.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from trivet.evaluation.window_queue import Expired, Overloaded
from trivet.records import FailedEvaluation, RagExample, to_json_text
from trivet.serve.http.batcher import Batcher, Draining
from trivet.serve.http.prometheus_metrics import Metrics
from trivet.serve.http.request_errors import STATUSES, RequestError
from trivet.serve.http.response_models import ErrorAnswer, HealthAnswer
from trivet.serve.http.routing import add_get

logger = logging.getLogger(__name__)

CANARY = RagExample(
    question="When was the stone bridge built?",
    contexts=("The stone bridge over the river was built in 1884. It replaced a ferry.",),
    response="It was built in 1884.",
    id="canary",
)

CHECKS = 3  # failed ones in a row after which the process should be restarted

PROBES = frozenset({"/health/live", "/health/ready"})
PUBLIC = PROBES | {"/", "/try"}
"""Paths that need no API key."""


class Health:
    """State of the probes."""

    def __init__(self, *, canary_seconds: float = 10.0, hung_seconds: float = 30.0) -> None:
        """Start live but not ready; a call counts as hung after ``hung_seconds``."""
        self._canary_seconds = canary_seconds
        self._hung_seconds = hung_seconds
        self._batcher: Batcher | None = None
        self.draining = False
        self._canary: asyncio.Task[str | None] | None = None
        self._sent = 0.0
        self._failed_checks = 0
        self._reason: str | None = None

    def warmed(self, batcher: Batcher) -> None:
        """Become ready: the backend has answered."""
        self._batcher = batcher

    def drain(self) -> None:
        """Become not ready: the server refuses new work."""
        self.draining = True

    @property
    def starting(self) -> bool:
        """Whether the backend has not answered yet."""
        return self._batcher is None

    def ready(self) -> str | None:
        """Return why the server is not ready, or ``None``."""
        if self.draining:
            return "draining: the server is shutting down"
        if self._batcher is None:
            return "warming up"
        return self._hung_call(self._batcher) or self._reason

    def live(self) -> str | None:
        """Return why the process should be restarted, or ``None``."""
        if self._failed_checks < CHECKS:
            return None
        return f"{self._failed_checks} checks in a row failed; the last: {self._reason}"

    async def watch(self) -> None:
        """Check the backend repeatedly until cancelled."""
        pause = self._canary_seconds
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            await self.check()
            pause = max(0.0, self._canary_seconds - (time.monotonic() - began))

    async def check(self) -> None:
        """Check the backend once, for at most ``canary_seconds``."""
        batcher = self._batcher
        if batcher is None or self.draining:
            return
        reason = await self._probe(batcher)
        if reason is None and self._failed_checks:
            logger.warning("the backend answers again, after %d failed checks", self._failed_checks)
        self._failed_checks = 0 if reason is None else self._failed_checks + 1
        self._reason = reason
        if reason is not None:
            logger.error("check %d of %d failed: %s", self._failed_checks, CHECKS, reason)

    async def close(self) -> None:
        """Cancel a canary that still runs."""
        if self._canary is not None:
            self._canary.cancel()
            await asyncio.wait([self._canary])

    async def _probe(self, batcher: Batcher) -> str | None:
        """Return the fault of the backend, or ``None``."""
        if self._canary is None:
            self._canary = asyncio.create_task(_evaluate_canary(batcher))
            self._sent = time.monotonic()
        # A canary that is still queued stays there until the next check.
        done, _ = await asyncio.wait([self._canary], timeout=self._canary_seconds)
        if hung := self._hung_call(batcher):
            return hung
        if not done:
            return self._standstill(batcher, since=self._sent)
        task, self._canary = self._canary, None
        try:
            return task.result()
        except (Overloaded, Expired):
            return self._standstill(batcher)
        except Draining:
            return "the batcher refuses work"
        except Exception as error:
            logger.exception("the canary failed")
            return f"the canary failed: {type(error).__name__}"

    def _hung_call(self, batcher: Batcher) -> str | None:
        running = batcher.state().call_seconds
        if running is None or running <= self._hung_seconds:
            return None
        limit = f"hung_seconds {self._hung_seconds:g}"
        return f"a backend call has been running for {running:.0f} s ({limit})"

    def _standstill(self, batcher: Batcher, since: float = 0.0) -> str | None:
        """Return the fault that no call was answered although work waited since ``since``."""
        still = time.monotonic() - max(since, batcher.state().last_call)
        if still <= self._hung_seconds:
            return None
        limit = f"hung_seconds {self._hung_seconds:g}"
        return f"work waits, but no backend call was answered for {still:.0f} s ({limit})"


async def _evaluate_canary(batcher: Batcher) -> str | None:
    """Return the fault of the canary's verdict, or ``None``."""
    (result,) = (await batcher.evaluate([CANARY])).results
    if isinstance(result, FailedEvaluation):
        return f"the canary failed: {result.code}: {result.message}"
    return None


def add_health_routes(
    public: APIRouter, router: APIRouter, health: Health, metrics: Metrics
) -> None:
    """Add the probes of ``/health``, which need no key, and ``/metrics``."""

    async def show_metrics(request: Request) -> Response:
        return Response(await run_in_threadpool(metrics.page), media_type=CONTENT_TYPE_LATEST)

    def probe(path: str, fault_of: Callable[[], str | None], state: str, summary: str) -> None:
        text = to_json_text({"status": state})

        async def respond(request: Request) -> Response:
            fault = fault_of()
            if fault is not None:
                raise RequestError("unhealthy", fault)
            return Response(text, media_type="application/json")

        unhealthy = {STATUSES["unhealthy"]: {"model": ErrorAnswer}}
        add_get(public, path, respond, summary, response_model=HealthAnswer, responses=unhealthy)

    probe("/health/live", health.live, "live", "Liveness probe; 503 means restart the process.")
    ready = "Readiness probe; 503 while the server starts, drains or fails."
    probe("/health/ready", health.ready, "ready", ready)
    add_get(
        router, "/metrics", show_metrics, "Prometheus metrics.", response_class=PlainTextResponse
    )
