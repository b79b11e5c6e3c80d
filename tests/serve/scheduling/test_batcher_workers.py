"""The batcher with a backend that runs two calls at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.judges import FormulaBackend, GatedBackend, until
from tests.serve.scheduling.conftest import LONG, OTHER, SHORT, GatedBatcher, example, open_batcher
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs

pytestmark = pytest.mark.anyio


@pytest.fixture
def gated(formula: FormulaBackend) -> GatedBackend:
    return GatedBackend(formula, workers=2)


async def test_two_calls_run_at_once_and_a_third_waits(
    at: GatedBatcher, gated: GatedBackend
) -> None:
    first = at.ask(example(SHORT))
    await gated.begun(1)
    second = at.ask(example(OTHER))
    await gated.begun(2)
    third = at.ask(example(SHORT))
    await at.waiting(1)
    assert len(gated.calls) == 2
    gated.let(1)
    await gated.begun(3)
    gated.let(2)
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


async def test_closing_waits_for_the_calls_of_all_workers(
    at: GatedBatcher, gated: GatedBackend
) -> None:
    tasks = [at.ask(example(SHORT))]
    await gated.begun(1)
    tasks.append(at.ask(example(OTHER)))
    await gated.begun(2)
    closing = asyncio.create_task(at.batcher.close())
    gated.let(1)
    await asyncio.sleep(0.02)
    assert not closing.done()
    gated.let(1)
    await closing
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_call_beside_which_nothing_runs_gets_all_threads(
    judge: Evaluator, formula: FormulaBackend
) -> None:
    gated = GatedBackend(formula, workers=2)
    all_threads: list[bool] = []

    class ManyThreads:
        name, workers = "many threads", 2

        def run(self, windows: Windows) -> Outputs:
            all_threads.append(False)
            return gated.run(windows)

        def run_all_threads(self, windows: Windows) -> Outputs:
            all_threads.append(True)
            return gated.run(windows)

    evaluator = Evaluator(judge.bundle.folder, backend=ManyThreads(), positions=192)

    async with open_batcher(evaluator, gated) as at:
        first = at.ask(example(SHORT))
        await gated.begun(1)
        second = at.ask(example(OTHER))
        await gated.begun(2)
        gated.let(2)
        await asyncio.gather(first, second)
        gated.let(1)
        await at.ask(example(SHORT))
    assert all_threads == [True, False, True]
