"""Repeats are evaluated once, from any thread or event loop, and failures reach every caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import trivet
from tests.integrations.conftest import CountingJudge, Rows
from trivet.errors import ExampleError
from trivet.integrations.judge import VerdictCache
from trivet.records import Evaluation, FailedEvaluation, RagExample


class HeldJudge(CountingJudge):
    """A judge that answers once ``go_on`` is set."""

    def __init__(self, evaluator: trivet.Evaluator) -> None:
        super().__init__(evaluator)
        self.go_on = threading.Event()

    def evaluate_many(
        self, examples: Iterable[RagExample], **options: Any
    ) -> Iterator[Evaluation | FailedEvaluation]:
        assert self.go_on.wait(30)
        return super().evaluate_many(examples, **options)


def test_concurrent_threads_have_their_own_verdicts(embedded: trivet.Evaluator) -> None:
    held = HeldJudge(embedded)
    cache = VerdictCache(held)
    texts = [f"The bridge was built in {1700 + number}." for number in range(8)] * 2
    with ThreadPoolExecutor(16) as pool:
        futures = [pool.submit(cache.evaluate, "When?", [text], text) for text in texts]
        held.go_on.set()
        verdicts = [future.result() for future in futures]
    assert held.calls == [1] * 8
    assert [verdict.contexts[0].sentences[0].text for verdict in verdicts] == texts


def test_all_scores_of_an_example_are_one_evaluation(judge: Any, rows: Rows) -> None:
    cache = VerdictCache(judge)

    async def evaluate_often() -> list[Evaluation]:
        return await asyncio.gather(*(cache.evaluate_async(**rows[0]) for _ in range(4)))

    first, *others = asyncio.run(evaluate_often())
    assert all(other is first for other in others)
    assert cache.evaluate(**rows[0]) is first
    assert asyncio.run(evaluate_often())[0] is first  # from another event loop
    assert judge.calls == [1]


def test_a_cache_passes_options_on(judge: Any, single_judge: Any, rows: Rows) -> None:
    for asked in (judge, single_judge):
        verdict = VerdictCache(asked, threshold="strict", strict=True).evaluate(**rows[0])
        assert verdict.threshold == judge.bundle.info.thresholds.named("strict")
        with pytest.raises(TypeError, match=r"no option limit|argument 'limit'"):
            VerdictCache(asked, limit=1).evaluate(**rows[0])


def test_a_cancelled_request_leaves_others_alone(embedded: trivet.Evaluator, rows: Rows) -> None:
    held = HeldJudge(embedded)
    cache = VerdictCache(held)

    async def cancel_one() -> Evaluation:
        cancelled = asyncio.create_task(cache.evaluate_async(**rows[0]))
        other = asyncio.create_task(cache.evaluate_async(**rows[0]))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        held.go_on.set()
        return await other

    assert isinstance(asyncio.run(cancel_one()), Evaluation)


def test_a_failure_concerns_its_example_alone(judge: Any, rows: Rows) -> None:
    cache = VerdictCache(judge)
    with pytest.raises(ExampleError, match="there are no contexts") as caught:
        cache.evaluate("Where?", [], "Here.")
    assert caught.value.code == "empty_contexts"
    with pytest.raises(ExampleError, match="question is a value of type int, not a string"):
        cache.evaluate(3, ["a"], "b")
    assert isinstance(cache.evaluate(**rows[0]), Evaluation)


def test_errors_are_retried_and_old_verdicts_forgotten(verdicts: list[Evaluation]) -> None:
    results = chain([ConnectionError("no answer")], repeat(verdicts[0]))
    evaluate = Mock(side_effect=results)
    cache = VerdictCache(SimpleNamespace(evaluate=evaluate))
    with pytest.raises(ConnectionError, match="no answer"):
        cache.evaluate("When?", ["Red."], "In 0.")
    assert cache.evaluate("When?", ["Red."], "In 0.") is verdicts[0]
    for number in range(1, 2000):
        cache.evaluate("When?", ["Red."], f"In {number}.")
    assert evaluate.call_count == 2001
    cache.evaluate("When?", ["Red."], "In 1999.")
    assert evaluate.call_count == 2001
    cache.evaluate("When?", ["Red."], "In 0.")
    assert evaluate.call_count == 2002
