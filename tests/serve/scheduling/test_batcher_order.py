"""Order of the calls of a batcher: turns, limits, timeouts and cancelled requests."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from typing import Any

import pytest

from tests.judges import GatedBackend, until
from tests.serve.scheduling.conftest import LONG, OTHER, SHORT, GatedBatcher, example, open_batcher
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import Preprocessor
from trivet.records import Evaluation, RagExample
from trivet.serve.scheduling.batched_request import BatcherState, Draining, Expired, Overloaded

pytestmark = pytest.mark.anyio


async def test_short_requests_go_before_the_rest_of_a_long_one(at: GatedBatcher) -> None:
    long_one = at.ask(example(LONG, 40))
    await at.gated.begun(1)
    before = at.batcher.state().windows
    short_ones = [at.ask(example(SHORT)) for _ in range(6)]
    await at.waiting(before + 6)
    at.gated.let(2)
    answers = await asyncio.gather(*short_ones)
    assert [answer.windows for answer in answers] == [1] * 6
    assert not long_one.done()
    at.gated.let(10_000)
    long_windows = (await long_one).windows
    assert long_windows > 12
    # The short ones share the call after the one that was running.
    assert at.windows_with(SHORT)[:2] == [0, 6]
    assert sum(at.windows_with(LONG)) == long_windows


async def test_an_expired_request_is_answered_at_once_and_never_runs(at: GatedBatcher) -> None:
    assert dataclasses.replace(at.batcher.state(), last_call=0.0) == BatcherState(0, 0, None, False)
    held = await at.hold()
    busy, later = at.batcher.state(), at.batcher.state()
    assert busy.requests == 1
    assert 0 <= (busy.call_seconds or -1) <= (later.call_seconds or -1)
    late = at.ask(example(LONG, 20), timeout_seconds=0.02)
    patient = at.ask(example(SHORT), timeout_seconds=60)
    with pytest.raises(Expired, match=r"not answered within 0\.02 seconds"):
        await late
    assert at.gated.calls == at.gated.calls[:1]  # the backend is still held
    at.gated.let(10_000)
    await asyncio.gather(held, patient)
    assert sum(at.windows_with(LONG)) == 0
    assert at.reasons == ["deadline"]
    with pytest.raises(Expired, match="leaves no time"):
        await at.batcher.evaluate([example(OTHER)], timeout_seconds=0)
    assert sum(at.windows_with(OTHER)) == 0


async def test_a_backend_thread_checks_deadlines_before_each_call(at: GatedBatcher) -> None:
    """Without any timer of the event loop, which may be late itself."""

    late = at.ask(example(LONG, 40), timeout_seconds=600)
    await at.gated.begun(1)
    also_late = at.ask(example(OTHER), timeout_seconds=600)
    await at.waiting(at.count_windows(example(LONG, 40)) - 4 + 1)
    for request in at.batcher.requests:
        request.deadline = time.monotonic()
    at.gated.let(10_000)
    for task in (late, also_late):
        with pytest.raises(Expired, match="before all windows had run"):
            await task
    assert (await at.ask(example(SHORT))).windows == 1
    assert at.windows_with(LONG) == [4, 0]
    assert at.windows_with(OTHER) == [0, 0]


async def test_a_cancelled_request_frees_its_place_and_its_windows(
    gated_judge: Evaluator, gated: GatedBackend
) -> None:
    async with open_batcher(gated_judge, gated, max_requests=2) as at:
        held = await at.hold()
        gone = at.ask(example(LONG, 20))
        await at.waiting(at.count_windows(example(LONG, 20)))
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert at.batcher.state().windows == 0
        assert at.batcher.state().requests == 1
        other = at.ask(example(OTHER))
        gated.let(10_000)
        await asyncio.gather(held, other)
        assert sum(at.windows_with(LONG)) == 0
        assert at.reasons == ["cancelled"]


async def test_one_request_too_many_is_refused_before_it_is_tokenized(
    gated_judge: Evaluator, gated: GatedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_batcher(gated_judge, gated, max_requests=3) as at:
        held = await at.hold()
        others = [at.ask(example(OTHER)) for _ in range(2)]
        await at.waiting(2)
        prepared: list[Any] = []
        monkeypatch.setattr(Preprocessor, "preprocess", lambda *given: prepared.append(given))
        with pytest.raises(Overloaded, match="3 requests are being served") as caught:
            await at.batcher.evaluate([example(SHORT)])
        assert caught.value.reason == "requests"
        assert caught.value.retry_after_seconds > 0
        assert prepared == []
        monkeypatch.undo()
        gated.let(10_000)
        await asyncio.gather(held, *others)
        await at.ask(example(SHORT))
        assert at.reasons == ["requests"]


async def test_windows_are_bounded_when_they_are_known(
    gated_judge: Evaluator, gated: GatedBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_batcher(gated_judge, gated, max_windows=5) as at:
        held = await at.hold()
        # Many windows in few characters: their number is known only when they are laid out.
        dense = RagExample("", ("* " * 250,), LONG)
        windows = at.count_windows(dense)
        assert windows > 5
        one = at.ask(example(OTHER))
        await at.waiting(1)
        with pytest.raises(Overloaded, match=f"these are {windows} more") as caught:
            await at.batcher.evaluate([dense])
        assert caught.value.reason == "windows"
        assert at.reasons == ["windows"]
        gated.let(2)
        await asyncio.gather(held, one)
        assert sum(at.windows_with(LONG)) == 0
        assert not caplog.records  # a refusal is not an error of the server


async def test_draining_finishes_what_was_accepted_and_refuses_the_rest(at: GatedBatcher) -> None:
    accepted = [at.ask(example(SHORT)) for _ in range(30)]
    await at.gated.begun(1)
    draining = asyncio.create_task(at.batcher.drain(60))
    await until(lambda: at.batcher.state().draining)
    with pytest.raises(Draining):
        await at.batcher.evaluate([example(OTHER)])
    assert not draining.done()
    at.gated.let(10_000)
    assert await draining is True
    answers = [task.result() for task in accepted]
    assert all(isinstance(answer.results[0], Evaluation) for answer in answers)
    assert await at.batcher.drain(0) is True
    assert at.reasons == ["draining"]


async def test_requests_left_after_the_grace_are_refused(at: GatedBatcher) -> None:
    accepted = [at.ask(example(SHORT)), at.ask(example(LONG, 20))]
    await at.gated.begun(1)
    assert await at.batcher.drain(0.02) is False
    assert at.batcher.state().requests == 0
    for task in accepted:
        with pytest.raises(Draining, match=r"grace of 0\.02 seconds is over"):
            await task
    assert at.batcher.state().windows == 0


async def test_a_call_waits_for_requests_that_are_being_laid_out(
    gated_judge: Evaluator, gated: GatedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is being laid out joins the call of one that is ready."""

    async with open_batcher(gated_judge, gated, wait_ms=30_000) as at:
        preprocess, quick_waits = Preprocessor.preprocess, threading.Event()
        entered = threading.Event()

        def slowly(owner: Any, examples: Any, **settings: Any) -> Any:
            if examples[0].id == OTHER:
                entered.set()
                assert quick_waits.wait(30)
            return preprocess(owner, examples, **settings)

        monkeypatch.setattr(Preprocessor, "preprocess", slowly)
        slow = at.ask(example(OTHER))
        assert await asyncio.to_thread(entered.wait, 30)
        quick = at.ask(example(SHORT))
        await at.waiting(1)
        quick_waits.set()
        gated.let(10_000)
        await asyncio.gather(slow, quick)
        assert at.windows_with(OTHER) == at.windows_with(SHORT) == [1]
        # Nothing else is coming: the next one starts at once, whatever wait_ms says.
        await at.ask(example(LONG))


async def test_an_expired_request_is_never_tokenized(
    at: GatedBatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    preprocess, opened, seen = Preprocessor.preprocess, threading.Event(), []

    def slowly(owner: Any, examples: Any, **settings: Any) -> Any:
        seen.append(examples[0].id)
        assert opened.wait(30)
        return preprocess(owner, examples, **settings)

    monkeypatch.setattr(Preprocessor, "preprocess", slowly)
    first = [at.ask(example(OTHER)) for _ in range(16)]  # more than there are threads
    await until(lambda: len(at.batcher.requests) == 16)
    late = at.ask(example(SHORT), timeout_seconds=600)
    await until(lambda: len(at.batcher.requests) == 17)
    for request in at.batcher.requests:
        if request.examples[0].id == SHORT:
            request.deadline = time.monotonic()
    opened.set()
    at.gated.let(10_000)
    with pytest.raises(Expired, match="before it was tokenized"):
        await late
    await asyncio.gather(*first)
    assert seen == [OTHER] * 16
