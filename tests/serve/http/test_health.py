"""Health on a real batcher, whose backend fails or stands still on demand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.judges import until
from tests.serve.http.conftest import EvenBackend
from tests.serve.http.connections import PATIENCE
from trivet.errors import BackendError
from trivet.evaluation.evaluator import Evaluator
from trivet.records import RagExample
from trivet.serve.http.batcher import Batcher
from trivet.serve.http.health import CANARY, CHECKS, Health

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def warmed_up(
    backend: EvenBackend, *, canary_seconds: float = 0.05, hung_seconds: float = 60.0, **bounds: Any
) -> AsyncIterator[tuple[Health, Batcher]]:
    """Yield the health of a batcher that has answered; nothing checks it by itself."""
    health = Health(canary_seconds=canary_seconds, hung_seconds=hung_seconds)
    batcher = Batcher(Evaluator(backend=backend), **bounds)
    await batcher.evaluate([CANARY])
    health.warmed(batcher)
    try:
        async with asyncio.timeout(PATIENCE):
            yield health, batcher
    finally:
        backend.gate.set()
        await health.close()
        await batcher.close()


async def test_a_broken_backend_is_not_ready_and_after_three_checks_not_live(
    backend: EvenBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async with warmed_up(backend, canary_seconds=PATIENCE) as (health, _):
        backend.error = BackendError("the GPU is gone")
        for number in range(1, CHECKS + 1):
            assert health.live() is None
            await health.check()
            assert f"check {number} of 3 failed" in caplog.text
            assert "the GPU is gone" in str(health.ready())
        reason = "3 checks in a row failed; the last: the canary failed"
        assert str(health.live()).startswith(reason)
        backend.error = None
        await health.check()
        assert (health.ready(), health.live()) == (None, None)


async def test_failures_that_are_not_in_a_row_keep_it_live(backend: EvenBackend) -> None:
    async with warmed_up(backend, canary_seconds=PATIENCE) as (health, _):
        for broken in (True, True, False) * 2:
            backend.error = BackendError("the GPU is gone") if broken else None
            await health.check()
            assert health.live() is None
            assert (health.ready() is None) != broken


async def test_a_hung_call_is_not_ready_and_later_not_live(backend: EvenBackend) -> None:
    async with warmed_up(backend, hung_seconds=0.2) as (health, batcher):
        backend.gate.clear()
        asked = asyncio.create_task(batcher.evaluate([CANARY]))
        await until(lambda: (batcher.state().call_seconds or 0) > 0.2)
        assert "a backend call has been running for" in str(health.ready())
        for _ in range(CHECKS):
            assert health.live() is None
            await health.check()
            assert batcher.state().requests == 2, "one canary waits at a time"
        assert health.live() is not None
        backend.gate.set()
        await asked
        await health.check()
        assert (health.ready(), health.live()) == (None, None)


async def test_a_long_queue_that_moves_is_healthy(backend: EvenBackend) -> None:
    # No call is long, but the canary waits through ten checks for its turn.
    async with warmed_up(backend, canary_seconds=0.01, hung_seconds=5.0) as (health, batcher):
        example = RagExample(CANARY.question, ("river " * 1800,), CANARY.response)
        backend.gate.clear()
        work = [asyncio.create_task(batcher.evaluate([example])) for _ in range(2)]
        await until(lambda: batcher.state().windows > 4)
        backend.gate.set()
        while not all(task.done() for task in work):
            await health.check()
            assert (health.ready(), health.live()) == (None, None)
        await asyncio.gather(*work)


@pytest.mark.parametrize("bound", [{"max_requests": 1}, {"max_windows": 1}])
async def test_a_full_queue_that_moves_is_healthy_and_one_that_stands_is_not(
    backend: EvenBackend, bound: dict[str, Any]
) -> None:
    async with warmed_up(backend, hung_seconds=0.5, **bound) as (health, batcher):
        backend.gate.clear()
        example = RagExample(CANARY.question, ("river " * 1800,), CANARY.response)
        full = asyncio.create_task(batcher.evaluate([example]))
        await until(lambda: batcher.state().windows > 1)
        await health.check()  # refused, and the last call was a moment ago
        assert (health.ready(), health.live()) == (None, None)
        await until(lambda: (batcher.state().call_seconds or 0) > 0.5)
        for _ in range(CHECKS):
            await health.check()
        assert health.ready() is not None
        assert health.live() is not None
        backend.gate.set()
        await full
        await health.check()
        assert (health.ready(), health.live()) == (None, None)


async def test_failed_calls_do_not_count_as_answers(backend: EvenBackend) -> None:
    async with warmed_up(backend, hung_seconds=0.1, max_requests=1) as (health, batcher):
        await asyncio.sleep(0.12)  # nothing was evaluated: that is not a failure
        backend.error = BackendError("the GPU is gone")
        await batcher.evaluate([CANARY])  # fails, just now
        backend.error = None
        backend.gate.clear()
        full = asyncio.create_task(batcher.evaluate([CANARY]))
        await until(lambda: batcher.state().call_seconds is not None)
        await health.check()
        assert health.ready() is not None
        backend.gate.set()
        await full
        await health.check()
        assert health.ready() is None


async def test_a_canary_that_never_runs_is_a_fault(backend: EvenBackend) -> None:
    class Deaf(Batcher):
        """A batcher whose thread took the work and is gone."""

        async def evaluate(self, *arguments: Any, **options: Any) -> Any:
            await asyncio.Event().wait()

    health = Health(canary_seconds=0.01, hung_seconds=0.1)
    health.warmed(Deaf(Evaluator(backend=backend)))
    async with asyncio.timeout(PATIENCE):
        while health.live() is None:
            await health.check()
    reason = "work waits, but no backend call was answered for"
    assert str(health.ready()).startswith(reason)
    await health.close()


async def test_while_draining_it_is_live_and_not_checked(backend: EvenBackend) -> None:
    async with warmed_up(backend) as (health, _):
        health.drain()
        before = len(backend.calls)
        await health.check()
        assert len(backend.calls) == before
        assert health.ready() == "draining: the server is shutting down"
        assert health.live() is None


async def test_it_is_checked_repeatedly_until_cancelled(backend: EvenBackend) -> None:
    async with warmed_up(backend, canary_seconds=0.02) as (health, _):
        backend.error = BackendError("the GPU is gone")
        watching = asyncio.create_task(health.watch())
        await until(health.live)
        backend.error = None
        await until(lambda: health.ready() is None)
        watching.cancel()
        await asyncio.wait([watching])
        assert watching.cancelled()
