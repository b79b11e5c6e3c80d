"""A failure is the error of the examples that it concerns, and the batcher goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.judges import FormulaBackend, GatedBackend, until
from tests.serve.scheduling.conftest import OTHER, SHORT, example, token
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import Preprocessor
from trivet.model.aggregate import Outputs
from trivet.records import Evaluation, FailedEvaluation
from trivet.serve.scheduling.batcher import Batcher
from trivet.serve.scheduling.predictions import Predictions
from trivet.serve.scheduling.window_queue import WindowQueue

GOOD, BAD = SHORT, OTHER


def code(judged: Predictions, number: int = 0) -> str | None:
    """Return the code of a failure, ``None`` for a verdict."""
    result = judged.results[number]
    if isinstance(result, FailedEvaluation):
        return result.code
    assert isinstance(result, Evaluation)
    return None


def with_batcher(evaluator: Evaluator, test: Any, **settings: Any) -> None:
    """Run ``test(batcher)`` in a loop of its own."""

    async def run() -> None:
        batcher = Batcher(evaluator, **settings)
        await batcher.start()
        try:
            async with asyncio.timeout(60):
                await test(batcher)
        finally:
            await batcher.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fault", "reason", "message"),
    [
        ("raises_on", "backend_failed", "the formula was told to fail"),
        ("nan_on", "non_finite", "support_probs = nan"),
    ],
)
def test_an_error_of_a_call_is_that_of_its_examples_alone(
    judge: Evaluator, formula: FormulaBackend, fault: str, reason: str, message: str
) -> None:
    setattr(formula, fault, token(judge, BAD))
    # One window a call.
    evaluator = Evaluator(judge.bundle.folder, backend=formula, positions=1)

    async def test(batcher: Batcher) -> None:
        mixed, alone, fine = await asyncio.gather(
            batcher.evaluate([example(GOOD), example(BAD), example(GOOD, 9)]),
            batcher.evaluate([example(BAD, 9)]),
            batcher.evaluate([example(GOOD)]),
        )
        assert [code(mixed, number) for number in range(3)] == [None, reason, None]
        assert [result.id for result in mixed.results] == [GOOD, BAD, GOOD]
        assert code(alone) == reason
        assert code(fine) is None
        assert message in str(batcher.state().last_error)
        assert (batcher.state().requests, batcher.state().windows) == (0, 0)

    with_batcher(evaluator, test)


def test_the_other_windows_of_a_failed_example_do_not_run(
    gated_judge: Evaluator, gated: GatedBackend, formula: FormulaBackend
) -> None:
    bad = token(gated_judge, BAD)
    formula.raises_on = bad

    async def test(batcher: Batcher) -> None:
        failing = asyncio.create_task(batcher.evaluate([example(BAD, 40), example(GOOD)]))
        await gated.begun(1)
        assert batcher.state().windows > 4
        gated.let(10_000)
        judged = await failing
        assert [code(judged, 0), code(judged, 1)] == ["backend_failed", None]
        assert sum(gated.windows_with(bad)) == 4

    with_batcher(gated_judge, test)


class BrokenBackend:
    """Raises an error that no backend should raise, until it is removed."""

    name = "broken"

    def __init__(self, inner: FormulaBackend, error: BaseException) -> None:
        self.error: BaseException | None = error
        self._inner = inner

    def run(self, windows: Windows) -> Outputs:
        if self.error is not None:
            raise self.error
        return self._inner.run(windows)


class Panic(BaseException):
    """An error that is no Exception, as libraries written in Rust raise."""


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), Panic("deep down")])
def test_an_unexpected_error_in_a_call_ends_no_thread(
    judge: Evaluator, formula: FormulaBackend, error: BaseException
) -> None:
    engine = BrokenBackend(formula, error)
    evaluator = Evaluator(judge.bundle.folder, backend=engine)

    async def test(batcher: Batcher) -> None:
        assert code(await batcher.evaluate([example(GOOD)])) == "backend_failed"
        assert batcher.state().last_error == f"the backend call met {type(error).__name__}: {error}"
        assert batcher.state().call_seconds is None
        engine.error = None
        assert code(await batcher.evaluate([example(GOOD)])) is None

    with_batcher(evaluator, test)


def test_an_unexpected_error_outside_a_call_ends_no_thread(
    gated_judge: Evaluator, gated: GatedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(batcher: Batcher) -> None:
        first = asyncio.create_task(batcher.evaluate([example(GOOD)]))
        await gated.begun(1)
        second = asyncio.create_task(batcher.evaluate([example(GOOD)]))
        third = asyncio.create_task(batcher.evaluate([example(GOOD)]))
        await until(lambda: batcher.state().windows == 2)

        def broken(*_: object) -> None:
            monkeypatch.undo()
            raise LookupError("no such line")

        monkeypatch.setattr(WindowQueue, "take", broken)
        gated.let(10_000)
        for lost in await asyncio.gather(second, third):
            assert code(lost) == "backend_failed"
        await first
        assert "LookupError: no such line" in str(batcher.state().last_error)
        assert code(await batcher.evaluate([example(GOOD)])) is None
        assert batcher.state().requests == 0

    with_batcher(gated_judge, test)


@pytest.mark.parametrize("stage", ["preprocess", "postprocess"])
@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), Panic("deep down")])
def test_an_unexpected_error_outside_the_backend_is_raised_to_the_caller(
    judge: Evaluator, monkeypatch: pytest.MonkeyPatch, stage: str, error: BaseException
) -> None:
    step = getattr(Preprocessor if stage == "preprocess" else Evaluator, stage)

    def broken(owner: Any, given: Any, *others: Any, **settings: Any) -> Any:
        if getattr(given[0], "example", given[0]).id == BAD:
            raise error
        return step(owner, given, *others, **settings)

    monkeypatch.setattr(Preprocessor if stage == "preprocess" else Evaluator, stage, broken)

    async def test(batcher: Batcher) -> None:
        fine, raised = await asyncio.gather(
            batcher.evaluate([example(GOOD)]),
            batcher.evaluate([example(BAD)]),
            return_exceptions=True,
        )
        assert isinstance(fine, Predictions)
        assert code(fine) is None
        assert isinstance(raised, ZeroDivisionError | RuntimeError)
        assert str(error) in str(raised)
        assert (batcher.state().requests, batcher.state().windows) == (0, 0)

    with_batcher(judge, test)


def test_a_watch_that_fails_ends_no_thread(judge: Evaluator) -> None:
    class BrokenWatch:
        def called(self, windows: int, seconds: float) -> None:
            raise ValueError("cannot count")

        def rejected(self, reason: str) -> None:
            raise AssertionError(reason)

    async def test(batcher: Batcher) -> None:
        for _ in range(2):
            assert code(await batcher.evaluate([example(GOOD)])) is None
        await until(lambda: batcher.state().last_error)
        assert batcher.state().last_error == "the watch met ValueError: cannot count"

    with_batcher(judge, test, watch=BrokenWatch())
