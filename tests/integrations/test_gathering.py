"""What many ask at a time is judged together and once; failures reach everyone who waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from trivet.integrations.gathering import Gathering
from trivet.records import Evaluation, ExampleError, FailedEvaluation, RagExample


class HeldJudge:
    """Answers when it is let; then as the judge behind it does."""

    def __init__(self, judge: Any) -> None:
        self.judge = judge
        self.go_on = threading.Event()

    def evaluate(self, *arguments: Any) -> Evaluation:
        raise AssertionError("there is a batch call")

    def evaluate_many(
        self, examples: Iterable[RagExample]
    ) -> Iterator[Evaluation | FailedEvaluation]:
        assert self.go_on.wait(30)
        found: Iterator[Evaluation | FailedEvaluation] = self.judge.evaluate_many(examples)
        return found


class BrokenJudge:
    """Breaks at the first call, and answers from then on."""

    def __init__(self, judge: Any) -> None:
        self.judge = judge
        self.breaks = True

    def evaluate(self, question: str, contexts: Any, response: str) -> Evaluation:
        if self.breaks:
            self.breaks = False
            raise ConnectionError("no answer")
        found: Evaluation = self.judge.evaluate(question, contexts, response)
        return found


def test_threads_that_ask_while_the_engine_is_busy_share_a_call(
    judge: Any, rows: list[dict[str, Any]]
) -> None:
    held = HeldJudge(judge)
    gathering = Gathering(held)
    texts = [f"The bridge was built in {1700 + number}." for number in range(40)]
    with ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(gathering.ask, "When?", [text], text) for text in texts]
        held.go_on.set()
        verdicts = [future.result() for future in asked]
    assert sum(judge.calls) == 40
    assert len(judge.calls) < 40
    for text, verdict in zip(texts, verdicts, strict=True):
        assert verdict.contexts[0].sentences[0].text == text  # each got its own


def test_all_scores_of_an_example_are_one_pass(judge: Any, rows: list[dict[str, Any]]) -> None:
    gathering = Gathering(judge)

    async def ask_all() -> list[Evaluation]:
        return await asyncio.gather(*(gathering.ask_async(**rows[0]) for _ in range(4)))

    first, *others = asyncio.run(ask_all())
    assert all(other is first for other in others)
    assert gathering.ask(**rows[0]) is first
    assert asyncio.run(ask_all())[0] is first  # from another event loop
    assert judge.calls == [1]


def test_who_gives_up_takes_nothing_from_the_others(judge: Any, rows: list[dict[str, Any]]) -> None:
    held = HeldJudge(judge)
    gathering = Gathering(held)

    async def give_up_one() -> Evaluation:
        impatient = asyncio.create_task(gathering.ask_async(**rows[0]))
        patient = asyncio.create_task(gathering.ask_async(**rows[0]))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        held.go_on.set()
        return await patient

    assert isinstance(asyncio.run(give_up_one()), Evaluation)


def test_a_failure_is_its_examples_own(judge: Any, rows: list[dict[str, Any]]) -> None:
    gathering = Gathering(judge)
    with pytest.raises(ExampleError, match="there are no contexts") as caught:
        gathering.ask("Where?", [], "Here.")
    assert caught.value.code == "empty_contexts"
    with pytest.raises(ExampleError, match="question is a value of type int, not a string"):
        gathering.ask(3, ["a"], "b")
    assert isinstance(gathering.ask(**rows[0]), Evaluation)


def test_a_judge_that_breaks_is_asked_again(judge: Any, rows: list[dict[str, Any]]) -> None:
    gathering = Gathering(BrokenJudge(judge))
    with pytest.raises(ConnectionError, match="no answer"):
        gathering.ask(**rows[0])
    assert isinstance(gathering.ask(**rows[0]), Evaluation)


def test_only_so_much_is_remembered(judge: Any) -> None:
    gathering = Gathering(judge)
    for number in range(257):
        gathering.ask("When?", ["Red."], f"In {number}.")
    gathering.ask("When?", ["Red."], "In 256.")
    assert sum(judge.calls) == 257
    gathering.ask("When?", ["Red."], "In 0.")
    assert sum(judge.calls) == 258
