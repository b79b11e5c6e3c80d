"""Health on a real batcher, whose engine does what it is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from trivet.backends.backend import Backend
from trivet.backends.loading import EMBEDDED_BUNDLE, load_backend
from trivet.bundle.bundle import read_bundle
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs
from trivet.records import BackendError, RagExample
from trivet.serve.http.health import CANARY, CHECKS, Health
from trivet.serve.scheduling.batcher import Batcher

PATIENCE = 30.0


class MoodyBackend:
    """The embedded engine; fails or stands still where it is told to.

    Attributes:
        broken: Whether it raises.
        go: Cleared, a call does not return until it is set.
        calls: How many it was asked.
    """

    name = "moody"

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self.broken = False
        self.go = threading.Event()
        self.go.set()
        self.calls = 0

    def run(self, windows: Windows) -> Outputs:
        self.calls += 1
        if self.broken:
            raise BackendError("the GPU is gone")
        self.go.wait(PATIENCE)
        return self._engine.run(windows)


class Seen:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.reasons: list[str] = []

    def called(self, windows: int, seconds: float) -> None:
        self.calls.append(windows)

    def rejected(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture(scope="module")
def engine() -> Backend:
    return load_backend(read_bundle(EMBEDDED_BUNDLE), threads=1).backend


@pytest.fixture
def backend(engine: Backend) -> Iterator[MoodyBackend]:
    moody = MoodyBackend(engine)
    yield moody
    moody.go.set()


def with_health(
    backend: MoodyBackend,
    scenario: Callable[[Health, Batcher], Awaitable[None]],
    *,
    canary_seconds: float = 0.05,
    hung_seconds: float = 60.0,
    watch: Seen | None = None,
    **bounds: Any,
) -> None:
    """Run a scenario with a warmed batcher and nothing that checks by itself."""

    async def whole() -> None:
        health = Health(canary_seconds=canary_seconds, hung_seconds=hung_seconds, watch=watch)
        batcher = Batcher(Evaluator(backend=backend), watch=health, **bounds)
        await batcher.start()
        await batcher.evaluate([CANARY])
        health.warmed(batcher)
        try:
            async with asyncio.timeout(PATIENCE):
                await scenario(health, batcher)
        finally:
            backend.broken = False
            backend.go.set()
            await health.close()
            await batcher.close()

    asyncio.run(whole())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_nothing_is_ready_before_it_is_warm_but_it_lives() -> None:
    health = Health()
    assert health.ready() == "warming up"
    assert health.live() is None
    asyncio.run(health.check())  # nothing to check yet
    assert health.live() is None


def test_a_working_engine_is_ready_and_live(backend: MoodyBackend) -> None:
    async def scenario(health: Health, batcher: Batcher) -> None:
        for _ in range(CHECKS + 1):
            before = backend.calls
            await health.check()
            assert backend.calls == before + 1
            assert (health.ready(), health.live()) == (None, None)

    with_health(backend, scenario, canary_seconds=PATIENCE)


def test_a_broken_engine_is_not_ready_at_once_and_dead_after_three_checks(
    backend: MoodyBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(health: Health, batcher: Batcher) -> None:
        backend.broken = True
        for number in range(1, CHECKS + 1):
            assert health.live() is None
            await health.check()
            assert f"check {number} of 3 failed" in caplog.text
            ready = health.ready()
            assert ready is not None
            assert "the GPU is gone" in ready
        live = health.live()
        assert live is not None
        assert live.startswith("3 checks in a row failed; the last: the canary failed")
        backend.broken = False
        await health.check()
        assert (health.ready(), health.live()) == (None, None)

    with_health(backend, scenario, canary_seconds=PATIENCE)


def test_failures_that_are_not_in_a_row_kill_nothing(backend: MoodyBackend) -> None:
    async def scenario(health: Health, batcher: Batcher) -> None:
        for broken in (True, True, False, True, True, False):
            backend.broken = broken
            await health.check()
            assert health.live() is None
            assert (health.ready() is None) != broken

    with_health(backend, scenario, canary_seconds=PATIENCE)


def test_a_call_that_hangs_is_not_ready_without_any_check_and_dead_after_three(
    backend: MoodyBackend,
) -> None:
    async def scenario(health: Health, batcher: Batcher) -> None:
        backend.go.clear()
        asked = asyncio.create_task(batcher.evaluate([CANARY]))
        await until(lambda: (batcher.state().call_seconds or 0) > 0.2)
        ready = health.ready()
        assert ready is not None
        assert "a backend call has been running for" in ready
        for _ in range(CHECKS):
            assert health.live() is None
            await health.check()
        assert health.live() is not None
        backend.go.set()
        await asked
        await health.check()
        assert (health.ready(), health.live()) == (None, None)

    with_health(backend, scenario, hung_seconds=0.2)


def test_one_canary_is_under_way_at_a_time(backend: MoodyBackend) -> None:
    async def scenario(health: Health, batcher: Batcher) -> None:
        backend.go.clear()
        for _ in range(5):
            await health.check()
        assert batcher.state().requests == 1

    with_health(backend, scenario, hung_seconds=0.1)


def test_a_long_queue_that_moves_is_healthy(backend: MoodyBackend) -> None:
    # No call is long, but the canary waits through ten checks for its turn.
    async def scenario(health: Health, batcher: Batcher) -> None:
        example = RagExample(CANARY.question, ("river " * 1800,), CANARY.response)
        work = [asyncio.create_task(batcher.evaluate([example])) for _ in range(2)]
        await until(lambda: batcher.state().windows > 4)
        while not all(task.done() for task in work):
            await health.check()
            assert (health.ready(), health.live()) == (None, None)
        await asyncio.gather(*work)

    with_health(backend, scenario, canary_seconds=0.01, hung_seconds=5.0)


@pytest.mark.parametrize("bound", [{"most_requests": 1}, {"most_windows": 1}])
def test_a_full_queue_that_moves_is_healthy_and_one_that_stands_is_not(
    backend: MoodyBackend, bound: dict[str, Any]
) -> None:
    async def scenario(health: Health, batcher: Batcher) -> None:
        backend.go.clear()
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
        backend.go.set()
        await full
        await health.check()
        assert (health.ready(), health.live()) == (None, None)

    with_health(backend, scenario, hung_seconds=0.5, **bound)


def test_calls_that_fail_are_no_sign_of_life_where_no_canary_gets_in(
    backend: MoodyBackend,
) -> None:
    async def scenario(health: Health, batcher: Batcher) -> None:
        await asyncio.sleep(0.6)  # nothing was asked: that is no failure
        backend.broken = True
        await batcher.evaluate([CANARY])  # fails, just now
        backend.broken = False
        backend.go.clear()
        full = asyncio.create_task(batcher.evaluate([CANARY]))
        await until(lambda: batcher.state().call_seconds is not None)
        await health.check()
        assert health.ready() is not None
        backend.go.set()
        await full
        await health.check()
        assert health.ready() is None

    with_health(backend, scenario, hung_seconds=0.5, most_requests=1)


def test_a_canary_that_is_never_run_is_a_dead_engine(backend: MoodyBackend) -> None:
    class Deaf(Batcher):
        """A batcher whose engine thread took the work and is gone."""

        async def evaluate(self, *given: Any, **more: Any) -> Any:
            await asyncio.Event().wait()

    async def scenario() -> None:
        health = Health(canary_seconds=0.01, hung_seconds=0.1)
        health.warmed(Deaf(Evaluator(backend=backend)))
        async with asyncio.timeout(PATIENCE):
            while health.live() is None:
                await health.check()
        ready = health.ready()
        assert ready is not None
        assert ready.startswith("work waits, but no backend call was answered for")
        await health.close()

    asyncio.run(scenario())


def test_draining_is_not_ready_and_alive_and_checks_no_more(backend: MoodyBackend) -> None:
    async def scenario(health: Health, batcher: Batcher) -> None:
        health.drain()
        before = backend.calls
        await health.check()
        assert backend.calls == before
        assert health.ready() == "draining: the server is shutting down"
        assert health.live() is None

    with_health(backend, scenario)


def test_it_checks_by_itself_until_it_is_stopped(backend: MoodyBackend) -> None:
    async def scenario(health: Health, batcher: Batcher) -> None:
        backend.broken = True
        watching = asyncio.create_task(health.watch())
        await until(health.live)
        backend.broken = False
        await until(lambda: health.ready() is None)
        watching.cancel()
        await asyncio.wait([watching])
        assert watching.cancelled()

    with_health(backend, scenario, canary_seconds=0.02)


def test_what_the_batcher_tells_is_passed_on(backend: MoodyBackend) -> None:
    seen = Seen()

    async def scenario(health: Health, batcher: Batcher) -> None:
        await health.check()
        health.rejected("windows")

    with_health(backend, scenario, canary_seconds=PATIENCE, watch=seen)
    assert seen.calls == [1, 1]
    assert seen.reasons == ["windows"]
