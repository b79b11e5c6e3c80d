"""The batcher with a backend that runs two calls at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.judges import FormulaBackend, GatedBackend, ManyThreads, until
from tests.serve.scheduling.conftest import LONG, OTHER, SHORT, GatedBatcher, example, open_batcher
from trivet.evaluation.evaluator import Evaluator
from trivet.serve.scheduling.batched_request import Predictions

pytestmark = pytest.mark.anyio


@pytest.fixture
def gated(formula: FormulaBackend) -> GatedBackend:
    return GatedBackend(formula, workers=2)


async def two_calls(at: GatedBatcher) -> list[asyncio.Task[Predictions]]:
    """Occupy both workers, with one request each."""
    tasks = []
    for number, word in enumerate((SHORT, OTHER), start=1):
        tasks.append(at.ask(example(word)))
        await at.gated.begun(number)
    return tasks


async def test_two_calls_run_at_once_and_a_third_waits(at: GatedBatcher) -> None:
    first, second = await two_calls(at)
    third = at.ask(example(SHORT))
    await at.waiting(1)
    assert len(at.gated.calls) == 2
    at.gated.let(1)
    await at.gated.begun(3)
    at.gated.let(2)
    answers = await asyncio.gather(first, second, third)
    assert [answer.windows for answer in answers] == [1] * 3
    await until(lambda: at.batcher.state().call_seconds is None)


async def test_a_long_request_has_all_workers_while_it_is_alone(
    at: GatedBatcher, gated_judge: Evaluator, gated: GatedBackend
) -> None:
    asked = example(LONG, 40)
    windows = at.count_windows(asked)
    task = at.ask(asked)
    await gated.begun(2)
    gated.let(10_000)
    answer = await task
    assert answer.windows == windows == sum(at.windows_with(LONG))
    (alone,) = gated_judge.evaluate_many([asked])
    assert answer.results == (alone,)


async def test_closing_waits_for_the_calls_of_all_workers(at: GatedBatcher) -> None:
    tasks = await two_calls(at)
    closing = asyncio.create_task(at.batcher.close())
    at.gated.let(1)
    await asyncio.sleep(0.02)
    assert not closing.done()
    at.gated.let(1)
    await closing
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_call_beside_which_nothing_runs_gets_all_threads(
    judge: Evaluator, gated: GatedBackend
) -> None:
    backend = ManyThreads(gated, workers=2)
    evaluator = Evaluator(judge.bundle.folder, backend=backend, positions=192)
    async with open_batcher(evaluator, gated) as at:
        tasks = await two_calls(at)
        gated.let(2)
        await asyncio.gather(*tasks)
        gated.let(1)
        await at.ask(example(SHORT))
    assert backend.all_threads == [True, False, True]
