"""A failure is the error of the examples that it concerns, and the batcher goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.judges import FormulaBackend, GatedBackend, until
from tests.serve.scheduling.conftest import OTHER, SHORT, GatedBatcher, example, started, token
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import Preprocessor
from trivet.model.aggregate import Outputs
from trivet.records import Evaluation, FailedEvaluation
from trivet.serve.scheduling.batched_request import Predictions
from trivet.serve.scheduling.window_queue import WindowQueue

pytestmark = pytest.mark.anyio

GOOD, BAD = SHORT, OTHER


def failure(predictions: Predictions, number: int = 0) -> tuple[str, str] | None:
    """Return the code and message of a failure, ``None`` for a verdict."""
    result = predictions.results[number]
    if isinstance(result, FailedEvaluation):
        return result.code, result.message
    assert isinstance(result, Evaluation)
    return None


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("raises_on", "backend_failed", "the formula was told to fail"),
        ("nan_on", "non_finite", "support_probs = nan"),
    ],
)
async def test_an_error_of_a_call_is_that_of_its_examples_alone(
    judge: Evaluator, formula: FormulaBackend, fault: str, code: str, message: str
) -> None:
    setattr(formula, fault, token(judge, BAD))
    # One window a call.
    evaluator = Evaluator(judge.bundle.folder, backend=formula, positions=1)
    async with started(evaluator) as batcher:
        mixed, alone, fine = await asyncio.gather(
            batcher.evaluate([example(GOOD), example(BAD), example(GOOD, 9)]),
            batcher.evaluate([example(BAD, 9)]),
            batcher.evaluate([example(GOOD)]),
        )
        assert [result.id for result in mixed.results] == [GOOD, BAD, GOOD]
        assert failure(mixed, 0) is failure(mixed, 2) is failure(fine) is None
        for found in (failure(mixed, 1), failure(alone)):
            assert found is not None
            assert found[0] == code and message in found[1]
        assert (batcher.state().requests, batcher.state().windows) == (0, 0)


async def test_the_other_windows_of_a_failed_example_do_not_run(
    at: GatedBatcher, gated: GatedBackend, formula: FormulaBackend
) -> None:
    formula.raises_on = token(at.evaluator, BAD)
    failing = at.ask(example(BAD, 40), example(GOOD))
    await gated.begun(1)
    assert at.batcher.state().windows > 4
    gated.let(10_000)
    predictions = await failing
    assert failure(predictions, 0) == ("backend_failed", "the formula was told to fail")
    assert failure(predictions, 1) is None
    assert sum(at.windows_with(BAD)) == 4


class Panic(BaseException):
    """An error that is not an Exception, as libraries written in Rust raise."""


ERRORS = [ZeroDivisionError("by zero"), Panic("deep down")]


@pytest.mark.parametrize("error", ERRORS)
async def test_an_unexpected_error_in_a_call_ends_no_thread(
    judge: Evaluator, formula: FormulaBackend, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(windows: Windows) -> Outputs:
        raise error

    evaluator = Evaluator(judge.bundle.folder, backend=formula)
    async with started(evaluator) as batcher:
        monkeypatch.setattr(formula, "run", broken)
        message = f"the backend call met {type(error).__name__}: {error}"
        lost = await batcher.evaluate([example(GOOD)])
        assert failure(lost) == ("backend_failed", message)
        assert batcher.state().call_seconds is None
        monkeypatch.undo()
        assert failure(await batcher.evaluate([example(GOOD)])) is None


async def test_an_unexpected_error_outside_a_call_ends_no_thread(
    at: GatedBatcher, gated: GatedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await at.hold()
    others = [at.ask(example(GOOD)) for _ in range(2)]
    await at.waiting(2)

    def broken(*_: object) -> None:
        monkeypatch.undo()
        raise LookupError("no such line")

    monkeypatch.setattr(WindowQueue, "take", broken)
    gated.let(10_000)
    message = "a backend thread met LookupError: no such line"
    for lost in await asyncio.gather(*others):
        assert failure(lost) == ("backend_failed", message)
    await first
    assert failure(await at.ask(example(GOOD))) is None
    assert at.batcher.state().requests == 0


@pytest.mark.parametrize("owner", [Preprocessor, Evaluator])
@pytest.mark.parametrize("error", ERRORS)
async def test_an_unexpected_error_outside_the_backend_is_raised_to_the_caller(
    judge: Evaluator, monkeypatch: pytest.MonkeyPatch, owner: type, error: BaseException
) -> None:
    stage = "preprocess" if owner is Preprocessor else "postprocess"
    step = getattr(owner, stage)

    def broken(owner: Any, given: Any, *others: Any, **settings: Any) -> Any:
        if getattr(given[0], "example", given[0]).id == BAD:
            raise error
        return step(owner, given, *others, **settings)

    monkeypatch.setattr(owner, stage, broken)
    async with started(judge) as batcher:
        fine, raised = await asyncio.gather(
            batcher.evaluate([example(GOOD)]),
            batcher.evaluate([example(BAD)]),
            return_exceptions=True,
        )
        assert isinstance(fine, Predictions)
        assert failure(fine) is None
        assert isinstance(raised, ZeroDivisionError | RuntimeError)
        assert str(error) in str(raised)
        assert (batcher.state().requests, batcher.state().windows) == (0, 0)


async def test_a_watch_that_fails_ends_no_thread(
    judge: Evaluator, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenWatch:
        def called(self, windows: int, seconds: float) -> None:
            raise ValueError("cannot count")

        def rejected(self, reason: str) -> None:
            raise AssertionError(reason)

    async with started(judge, watch=BrokenWatch()) as batcher:
        for _ in range(2):
            assert failure(await batcher.evaluate([example(GOOD)])) is None
        await until(lambda: "ValueError: cannot count" in caplog.text)
