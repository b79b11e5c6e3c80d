"""Whether the server can answer, and whether it should be started anew.

A stored example goes through the batcher again and again, like any request. What counts is whether
the engine answers calls, never how long the queue is: a server with too much to do works.
"""

from __future__ import annotations

import asyncio
import logging
import time

from trivet.records import FailedEvaluation, RagExample
from trivet.serve.scheduling.batcher import Batcher
from trivet.serve.scheduling.predictions import Draining, Expired, Overloaded, Watch

logger = logging.getLogger(__name__)

CANARY = RagExample(
    question="When was the stone bridge built?",
    contexts=("The stone bridge over the river was built in 1884. It replaced a ferry.",),
    response="It was built in 1884.",
    id="canary",
)

# As many failed checks in a row as it takes to call for a new process.
CHECKS = 3


class Health:
    """Judges the engine by what comes out of it. Also hears of every call, and passes that on."""

    def __init__(
        self,
        *,
        canary_seconds: float = 10.0,
        hung_seconds: float = 30.0,
        watch: Watch | None = None,
    ) -> None:
        """Make one that is neither ready nor dead yet.

        Args:
            canary_seconds: From one check to the next.
            hung_seconds: An engine call that runs longer, or a time without any answered call while
                work waits, counts as hung.
            watch: Who else hears of calls and rejections.
        """
        self._canary_seconds = canary_seconds
        self._hung_seconds = hung_seconds
        self._watch = watch
        self._batcher: Batcher | None = None
        self._draining = False
        self._last_call = time.monotonic()
        self._canary: asyncio.Task[str | None] | None = None
        self._sent = 0.0
        self._failed_checks = 0
        self._reason: str | None = None

    # What the batcher tells (Watch) -------------------------------------------------------------

    def called(self, windows: int, seconds: float) -> None:
        """Note that the engine answered a call; from one of its threads."""
        self._last_call = time.monotonic()
        if self._watch is not None:
            self._watch.called(windows, seconds)

    def rejected(self, reason: str) -> None:
        """Pass a rejection on."""
        if self._watch is not None:
            self._watch.rejected(reason)

    # What the process tells ---------------------------------------------------------------------

    def warmed(self, batcher: Batcher) -> None:
        """Say that the engine has answered: from now on the server is ready unless it fails."""
        self._batcher = batcher
        self._last_call = time.monotonic()

    def drain(self) -> None:
        """Say that no new work is wanted."""
        self._draining = True

    # What the probes ask ------------------------------------------------------------------------

    def ready(self) -> str | None:
        """Return why no work should be sent here, or ``None``."""
        if self._draining:
            return "draining: the server is shutting down"
        if self._batcher is None:
            return "warming up"
        return self._hung_call(self._batcher) or self._reason

    def live(self) -> str | None:
        """Return why the process should be started anew, or ``None``."""
        if self._failed_checks < CHECKS:
            return None
        return f"{self._failed_checks} checks in a row failed; the last: {self._reason}"

    # The canary ---------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Check the engine again and again, until cancelled."""
        pause = self._canary_seconds
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            await self.check()
            pause = max(0.0, self._canary_seconds - (time.monotonic() - began))

    async def check(self) -> None:
        """Check the engine once; takes at most the time between two checks."""
        batcher = self._batcher
        if batcher is None or self._draining:
            return
        reason = await self._probe(batcher)
        if reason is None and self._failed_checks:
            logger.warning("the engine answers again, after %d failed checks", self._failed_checks)
        self._failed_checks = 0 if reason is None else self._failed_checks + 1
        self._reason = reason
        if reason is not None:
            logger.error("check %d of %d failed: %s", self._failed_checks, CHECKS, reason)

    async def close(self) -> None:
        """Give up a canary that is still under way."""
        if self._canary is not None:
            self._canary.cancel()
            await asyncio.wait([self._canary])

    async def _probe(self, batcher: Batcher) -> str | None:
        """Return what is wrong with the engine, or ``None``."""
        if self._canary is None:
            self._canary = asyncio.create_task(_judge_canary(batcher))
            self._sent = time.monotonic()
        # A canary that waits goes on waiting: it is looked at again at the next check.
        done, _ = await asyncio.wait([self._canary], timeout=self._canary_seconds)
        if hung := self._hung_call(batcher):
            return hung
        if not done:
            return self._standstill(since=self._sent)
        task, self._canary = self._canary, None
        try:
            return task.result()
        except (Overloaded, Expired):
            return self._standstill(since=self._last_call)
        except Draining:
            return "the batcher takes no work"
        except Exception as error:
            logger.exception("the canary failed")
            return f"the canary failed: {type(error).__name__}"

    def _hung_call(self, batcher: Batcher) -> str | None:
        running = batcher.state().call_seconds
        if running is None or running <= self._hung_seconds:
            return None
        limit = f"hung_seconds {self._hung_seconds:g}"
        return f"an engine call has been running for {running:.0f} s ({limit})"

    def _standstill(self, since: float) -> str | None:
        """Return that no call was answered for too long although work waited since ``since``."""
        still = time.monotonic() - max(since, self._last_call)
        if still <= self._hung_seconds:
            return None
        limit = f"hung_seconds {self._hung_seconds:g}"
        return f"work waits, but no engine call was answered for {still:.0f} s ({limit})"


async def _judge_canary(batcher: Batcher) -> str | None:
    """Return what is wrong with the verdict on the stored example, or ``None``."""
    judged = await batcher.judge([CANARY])
    (result,) = judged.results
    if isinstance(result, FailedEvaluation):
        return f"the canary failed: {result.code}: {result.message}"
    return None
