"""The batcher answers as the evaluator does, whatever shares its calls, and refuses when full."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judges import GatedBackend, approximately, until
from tests.serve.http.gated_batcher import LONG, OTHER, SHORT, GatedBatcher, Tally, example, opened
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import Preprocessor
from trivet.evaluation.window_queue import Expired, Overloaded
from trivet.records import Evaluation, RagExample
from trivet.serve.http.batcher import Batcher, BatcherState, Draining, Predictions

pytestmark = pytest.mark.anyio

EMPTY = RagExample("When?", (), "In 1817.", id="empty")


def evaluate_together(
    evaluator: Evaluator, requests: Sequence[Sequence[RagExample]], tally: Tally | None = None
) -> list[Predictions]:
    """Evaluate requests that come at the same time."""

    async def all_at_once() -> list[Predictions]:
        batcher = Batcher(evaluator, watch=tally)
        try:
            return list(await asyncio.gather(*map(batcher.evaluate, requests)))
        finally:
            await batcher.close()

    return asyncio.run(all_at_once())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(st.data())
def test_no_grouping_shows_in_the_answers(
    judge: Evaluator, rag_examples: tuple[RagExample, ...], data: st.DataObject
) -> None:
    positions = data.draw(st.sampled_from([1, 96, 192, 1000]))
    evaluator = Evaluator(judge.bundle.folder, backend=judge.backend, positions=positions)
    examples = st.lists(st.sampled_from([EMPTY, *rag_examples]), max_size=3)
    requests = data.draw(st.lists(examples, min_size=1, max_size=6))
    tally = Tally()
    answers = evaluate_together(evaluator, requests, tally)
    for request, answer in zip(requests, answers, strict=True):
        # One by one: the other examples of a call must not show.
        for asked, shown in zip(request, answer.results, strict=True):
            (alone,) = evaluator.evaluate_many([asked])
            if isinstance(shown, Evaluation) and isinstance(alone, Evaluation):
                assert json.loads(shown.to_json()) == approximately(
                    json.loads(alone.to_json()), 1e-6
                )
            else:
                assert shown == alone
    assert sum(tally.windows) == sum(answer.windows for answer in answers)
    assert tally.reasons == []


async def test_closing_leaves_no_thread_and_no_request_without_an_answer(
    gated_judge: Evaluator, gated: GatedBackend
) -> None:
    before = set(threading.enumerate())
    async with opened(gated_judge, gated) as at:
        tasks = [at.ask(example(SHORT)) for _ in range(3)]
        await gated.begun(1)
        closing = asyncio.create_task(at.batcher.close())
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [Draining] * 3
        await asyncio.sleep(0.02)
        assert not closing.done(), "a call runs"
        gated.let(1)
        await closing
        assert len(gated.calls) == 1
        with pytest.raises(Draining):
            await at.batcher.evaluate([example(SHORT)])
        assert at.tally.reasons == ["draining"] * 4
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert not any(name.startswith("trivet") for name in left)


async def test_short_requests_go_before_the_rest_of_a_long_one(at: GatedBatcher) -> None:
    long_one = at.ask(example(LONG, 40))
    await at.gated.begun(1)
    before = at.batcher.state().windows
    short_ones = [at.ask(example(SHORT)) for _ in range(6)]
    await at.waiting(before + 6)
    at.gated.let(3)
    answers = await asyncio.gather(*short_ones)
    assert [answer.windows for answer in answers] == [1] * 6
    assert not long_one.done()
    at.gated.let(10_000)
    assert (await long_one).windows == sum(at.windows_with(LONG)) > 12
    # They share the calls after the one that was running.
    assert at.windows_with(SHORT)[0] == 0
    assert sum(at.windows_with(SHORT)[:3]) == 6


async def test_an_expired_request_is_answered_at_once_and_never_runs(at: GatedBatcher) -> None:
    assert dataclasses.replace(at.batcher.state(), last_call=0.0) == BatcherState(0, 0, None, False)
    held = await at.hold()
    assert at.batcher.state().requests == 1
    late = at.ask(example(LONG, 20), timeout_seconds=0.02)
    patient = at.ask(example(SHORT), timeout_seconds=60)
    with pytest.raises(Expired, match=r"not answered within 0\.02 seconds"):
        await late
    assert len(at.gated.calls) == 1  # the backend is still held
    at.gated.let(10_000)
    await asyncio.gather(held, patient)
    assert sum(at.windows_with(LONG)) == 0
    with pytest.raises(Expired, match="leaves no time"):
        await at.batcher.evaluate([example(OTHER)], timeout_seconds=0)
    assert at.tally.reasons == ["deadline"] * 2


async def test_a_request_that_is_late_is_not_tokenized(
    at: GatedBatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the timers of the event loop do, which may be late themselves."""
    preprocess, go_on, seen = Preprocessor.preprocess, threading.Event(), []

    def slowly(owner: Any, examples: Any, **options: Any) -> Any:
        seen.append(examples[0].id)
        assert go_on.wait(30)
        return preprocess(owner, examples, **options)

    monkeypatch.setattr(Preprocessor, "preprocess", slowly)
    first = [at.ask(example(OTHER)) for _ in range(2)]  # as many as there are threads
    await until(lambda: len(seen) == 2)
    late = at.ask(example(SHORT), timeout_seconds=0.05)
    await asyncio.sleep(0)
    time.sleep(0.06)
    go_on.set()
    at.gated.let(10_000)
    with pytest.raises(Expired):
        await late
    await asyncio.gather(*first)
    assert seen == [OTHER] * 2


async def test_a_cancelled_request_frees_its_place_and_its_windows(
    gated_judge: Evaluator, gated: GatedBackend
) -> None:
    async with opened(gated_judge, gated, max_requests=2) as at:
        held = await at.hold()
        gone = at.ask(example(LONG, 20))
        await at.waiting(at.count_windows(example(LONG, 20)))
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert (at.batcher.state().requests, at.batcher.state().windows) == (1, 0)
        other = at.ask(example(OTHER))
        gated.let(10_000)
        await asyncio.gather(held, other)
        assert sum(at.windows_with(LONG)) == 0
        assert at.tally.reasons == ["cancelled"]


@pytest.mark.parametrize("limit", ["max_requests", "max_windows"])
async def test_a_full_batcher_refuses_before_it_tokenizes(
    gated_judge: Evaluator, gated: GatedBackend, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    async with opened(gated_judge, gated, **{limit: 3 if limit == "max_requests" else 2}) as at:
        held = await at.hold()
        others = [at.ask(example(OTHER)) for _ in range(2)]
        await at.waiting(2)
        with monkeypatch.context() as patched:
            patched.setattr(Preprocessor, "preprocess", None)
            with pytest.raises(Overloaded) as caught:
                await at.batcher.evaluate([example(SHORT)])
            with pytest.raises(Overloaded):
                at.batcher.check_capacity()
        reason = limit.removeprefix("max_")
        assert caught.value.reason == reason
        assert caught.value.retry_after_seconds > 0
        gated.let(10_000)
        await asyncio.gather(held, *others)
        await at.ask(example(SHORT))
        assert at.tally.reasons == [reason] * 2


async def test_windows_are_bounded_when_they_are_known(
    gated_judge: Evaluator, gated: GatedBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(gated_judge, gated, max_windows=5) as at:
        held = await at.hold()
        many = example(LONG, 40)
        other = at.ask(example(OTHER))
        await at.waiting(1)
        with pytest.raises(Overloaded, match=f"these are {at.count_windows(many)} more"):
            await at.batcher.evaluate([many])
        gated.let(2)
        await asyncio.gather(held, other)
        assert sum(at.windows_with(LONG)) == 0
        assert not caplog.records  # a refusal is not an error of the server


async def test_requests_left_after_the_grace_are_refused(at: GatedBatcher) -> None:
    accepted = [at.ask(example(SHORT)), at.ask(example(LONG, 20))]
    await at.gated.begun(1)
    assert await at.batcher.drain(0.02) is False
    for task in accepted:
        with pytest.raises(Draining, match=r"grace of 0\.02 seconds is over"):
            await task
    assert (at.batcher.state().requests, at.batcher.state().windows) == (0, 0)


async def test_a_call_waits_for_requests_that_are_being_prepared(
    gated_judge: Evaluator, gated: GatedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is being prepared joins the call of one that is ready."""
    async with opened(gated_judge, gated, wait_ms=30_000) as at:
        preprocess, quick_waits = Preprocessor.preprocess, threading.Event()
        entered = threading.Event()

        def slowly(owner: Any, examples: Any, **options: Any) -> Any:
            if examples[0].id == OTHER:
                entered.set()
                assert quick_waits.wait(30)
            return preprocess(owner, examples, **options)

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
