"""The batcher answers as the evaluator does, whatever shares its calls."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judges import approximately
from tests.serve.scheduling.conftest import Tally, started
from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation, FailedEvaluation, RagExample
from trivet.serve.scheduling.batched_request import Draining, Predictions
from trivet.serve.scheduling.batcher import Batcher

MILL = RagExample(
    "When was the old mill built?",
    ("The old mill was built of stone in 1817. The river crosses the town.", ""),
    "It was built in 1817. It was made of wood.",
    id="mill",
)
EMPTY = RagExample("When?", (), "In 1817.", id="empty")
WRONG: Any = RagExample("When?", ("The mill.",), 1817, id="wrong")  # type: ignore[arg-type]


def evaluate_together(
    evaluator: Evaluator, requests: Sequence[Sequence[RagExample]], **settings: Any
) -> list[Predictions]:
    """Evaluate requests that come at the same time."""

    async def all_at_once() -> list[Predictions]:
        async with started(evaluator, **settings) as batcher:
            return list(await asyncio.gather(*(batcher.evaluate(each) for each in requests)))

    return asyncio.run(all_at_once())


def check_equal(found: Evaluation | FailedEvaluation, alone: Evaluation | FailedEvaluation) -> None:
    if isinstance(found, Evaluation) and isinstance(alone, Evaluation):
        assert json.loads(found.to_json()) == approximately(json.loads(alone.to_json()), 1e-6)
    else:
        assert found == alone


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_mixed_requests_answer_as_each_would_alone(
    tiny_bundle: Path, rag_examples: tuple[RagExample, ...], precision: Any
) -> None:
    evaluator = Evaluator(tiny_bundle, threads=1, precision=precision)
    examples = [MILL, *rag_examples]
    requests = [[example] for example in examples] + [[*examples[:3], EMPTY, WRONG, *examples[3:]]]
    tally = Tally()
    judged = evaluate_together(evaluator, requests, watch=tally)
    for request, answer in zip(requests, judged, strict=True):
        for example, found in zip(request, answer.results, strict=True):
            # One by one: the other examples of a call must not show.
            (alone,) = evaluator.evaluate_many([example])
            check_equal(found, alone)
    windows = [
        sum(result.windows for result in answer.results if isinstance(result, Evaluation))
        for answer in judged
    ]
    assert [answer.windows for answer in judged] == windows
    assert sum(tally.windows) == sum(windows)
    assert max(tally.windows) > 1
    assert tally.reasons == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.data())
def test_no_grouping_shows_in_the_answers(
    judge: Evaluator, rag_examples: tuple[RagExample, ...], data: st.DataObject
) -> None:
    positions = data.draw(st.sampled_from([1, 96, 192, 1000]))
    evaluator = Evaluator(judge.bundle.folder, backend=judge.backend, positions=positions)
    examples = st.lists(st.sampled_from([MILL, EMPTY, *rag_examples]), max_size=3)
    requests = data.draw(st.lists(examples, min_size=1, max_size=6))
    for request, answer in zip(requests, evaluate_together(evaluator, requests), strict=True):
        for found, alone in zip(answer.results, evaluator.evaluate_many(request), strict=True):
            check_equal(found, alone)


def test_the_seconds_of_the_stages_are_parts_of_the_whole(judge: Evaluator) -> None:
    tally = Tally()
    started = time.monotonic()
    judged = evaluate_together(judge, [[MILL], [MILL, MILL], [EMPTY]], watch=tally)
    whole = time.monotonic() - started
    for answer in judged:
        parts = dataclasses.astuple(answer.seconds)
        assert all(part >= 0 for part in parts)
        assert answer.seconds.tokenize > 0
        assert sum(parts) <= whole
    assert judged[2].seconds.infer == 0
    assert 0 < judged[0].seconds.infer <= sum(tally.seconds) + 1e-9


def test_closing_leaves_no_thread_and_no_request_without_an_answer(
    gated_judge: Evaluator, gated: Any
) -> None:
    before = set(threading.enumerate())

    async def ask() -> None:
        tally = Tally()
        batcher = Batcher(gated_judge, watch=tally)
        await batcher.start()
        tasks = [asyncio.create_task(batcher.evaluate([MILL])) for _ in range(3)]
        await gated.begun(1)
        assert set(threading.enumerate()) > before
        closing = asyncio.create_task(batcher.close())
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [Draining] * 3
        gated.let(1)
        await closing
        assert len(gated.calls) == 1
        await batcher.close()
        with pytest.raises(Draining):
            await batcher.evaluate([MILL])
        assert tally.reasons == ["draining"] * 4

    asyncio.run(ask())
    assert set(threading.enumerate()) == before


def test_a_batcher_that_never_started_can_be_closed(judge: Evaluator) -> None:
    asyncio.run(Batcher(judge).close())
