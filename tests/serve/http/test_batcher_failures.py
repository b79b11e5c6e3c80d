"""A failure is the error of the examples that it concerns, and the batcher goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.judges import FormulaBackend, Panic, until
from tests.serve.http.gated_batcher import OTHER, SHORT, GatedBatcher, Tally, example
from trivet.evaluation.example_batch import ExampleBatch
from trivet.evaluation.preprocessing import Preprocessor
from trivet.evaluation.window_queue import WindowQueue
from trivet.records import Evaluation, FailedEvaluation
from trivet.serve.http.batcher import Batcher

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("raises_on", "backend_failed", "the formula was told to fail"),
        ("nan_on", "non_finite", "support_probs = nan"),
    ],
)
async def test_an_error_of_a_call_is_that_of_its_examples_alone(
    at: GatedBatcher, formula: FormulaBackend, fault: str, code: str, message: str
) -> None:
    setattr(formula, fault, at.token(OTHER))
    held = await at.hold()
    examples = (example(OTHER, 40), example(SHORT, 9))
    failing = at.ask(*examples)
    await at.waiting(sum(map(at.count_windows, examples)))
    at.gated.let(10_000)
    failed, fine = (await failing).results
    assert isinstance(failed, FailedEvaluation)
    assert failed.code == code and message in failed.message
    # An error of a whole call is that of all its examples.
    assert isinstance(fine, Evaluation) or fault == "raises_on"
    assert sum(at.windows_with(OTHER)) < at.count_windows(examples[0])
    await held
    assert isinstance((await at.ask(example(SHORT))).results[0], Evaluation)
    assert (at.batcher.state().requests, at.batcher.state().windows) == (0, 0)


async def test_an_unexpected_error_outside_a_call_ends_no_thread(
    at: GatedBatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await at.hold()
    others = [at.ask(example(SHORT)) for _ in range(2)]
    await at.waiting(2)

    def broken(*_: object) -> None:
        monkeypatch.undo()
        raise LookupError("no such line")

    monkeypatch.setattr(WindowQueue, "take", broken)
    at.gated.let(10_000)
    for lost in await asyncio.gather(*others, return_exceptions=True):
        assert str(lost) == "a backend thread met LookupError: no such line"
    await first
    assert isinstance((await at.ask(example(SHORT))).results[0], Evaluation)


@pytest.mark.parametrize(("owner", "stage"), [(Preprocessor, "preprocess"), (ExampleBatch, "join")])
@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), Panic("deep down")])
async def test_an_unexpected_error_outside_the_backend_is_raised_to_the_caller(
    at: GatedBatcher, monkeypatch: pytest.MonkeyPatch, owner: type, stage: str, error: BaseException
) -> None:
    def broken(*_: Any, **options: Any) -> Any:
        raise error

    at.gated.let(10_000)
    with monkeypatch.context() as patched:
        patched.setattr(owner, stage, broken)
        with pytest.raises((ZeroDivisionError, RuntimeError), match=str(error)):
            await at.batcher.evaluate([example(SHORT)])
    await at.ask(example(SHORT))
    assert (at.batcher.state().requests, at.batcher.state().windows) == (0, 0)


async def test_a_watch_that_fails_ends_no_thread(
    at: GatedBatcher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenWatch(Tally):
        def called(self, windows: int, seconds: float) -> None:
            raise ValueError("cannot count")

    at.gated.let(10_000)
    batcher = Batcher(at.evaluator, watch=BrokenWatch())
    for _ in range(2):
        await batcher.evaluate([example(SHORT)])
    await until(lambda: "ValueError: cannot count" in caplog.text)
    await batcher.close()
