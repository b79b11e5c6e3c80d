"""A call beside which nothing runs has all threads, and answers the same bits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.serve.conftest import FormulaBackend, GatedBackend
from tests.serve.test_batcher_order import OTHER, SHORT, example, room
from trivet.data.reading import read_examples
from trivet.data.tokens import SegmentTokenizer
from trivet.data.windows import Layout, Windows, WindowSettings, lay_out
from trivet.model.aggregate import Outputs
from trivet.model.bundle import read_bundle
from trivet.model.example_windows import Sizes, make_windows
from trivet.model.parity import grid
from trivet.records import RagExample
from trivet.serve import onnx_runtime
from trivet.serve.engine_calls import Filling
from trivet.serve.evaluator import Evaluator
from trivet.serve.lanes import Lanes
from trivet.serve.loading import DEFAULT_BUNDLE, load_backend
from trivet.serve.onnx_runtime import OnnxRuntimeBackend
from trivet.serve.running_layouts import RunningLayouts

WAIT_SECONDS = 30.0
WINDOW, VOCAB = 48, 150


class Whole(FormulaBackend):
    """A formula that can give a call all threads.

    Attributes:
        alone: For every call whether it was given them.
    """

    def __init__(self, lanes: int) -> None:
        super().__init__()
        self.lanes = lanes
        self.alone: list[bool] = []

    def run(self, windows: Windows) -> Outputs:
        self.alone.append(False)
        return super().run(windows)

    def run_alone(self, windows: Windows) -> Outputs:
        self.alone.append(True)
        return super().run(windows)


@pytest.fixture
def windows_apart(wordpiece_file: Path) -> list[Layout]:
    """Return layouts of one window each."""
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    examples = [RagExample("Who?", ("The keeper had a lamp.",), "The keeper.") for _ in range(16)]
    cut = WindowSettings(size=WINDOW)
    return [lay_out(read, cut, tokenizer.special) for read in read_examples(examples, tokenizer)]


def run(layouts: Sequence[Layout], backend: Whole, lanes: Lanes) -> None:
    RunningLayouts(layouts, backend, lanes, 0, Filling(1)).join("weakest_token")


@pytest.mark.parametrize(
    ("lanes", "calls", "alone"),
    [(1, 1, 0), (2, 1, 1), (2, 2, 0), (2, 11, 1), (4, 1, 1), (4, 3, 0), (4, 5, 1), (4, 8, 0)],
)
def test_the_last_calls_are_alone_where_they_are_too_few_for_the_lanes(
    windows_apart: list[Layout], lanes: int, calls: int, alone: int
) -> None:
    backend = Whole(lanes)
    run(windows_apart[:calls], backend, Lanes(lanes))
    assert len(backend.alone) == calls
    assert sum(backend.alone) == alone


def test_where_other_work_waits_no_call_is_alone(windows_apart: list[Layout]) -> None:
    backend, lanes, gate = Whole(2), Lanes(2), threading.Event()
    both_lanes = threading.Barrier(3)

    def hold() -> bool:
        both_lanes.wait(WAIT_SECONDS)
        return gate.wait(WAIT_SECONDS)

    held = [lanes.submit(hold) for _ in range(2)]
    both_lanes.wait(WAIT_SECONDS)
    running = RunningLayouts(windows_apart[:1], backend, lanes, 0, Filling(1))
    later = threading.Event()
    behind = [lanes.submit(lambda: later.wait(WAIT_SECONDS)) for _ in range(4)]
    assert lanes.waiting == 5
    gate.set()
    running.join("weakest_token")
    later.set()
    assert all(each.result(WAIT_SECONDS) for each in (*held, *behind))
    assert backend.alone == [False]
    assert lanes.waiting == 0


def test_the_server_gives_all_threads_to_a_call_beside_which_nothing_runs(
    judge: Evaluator,
) -> None:
    whole = Whole(lanes=2)
    gated = GatedWhole(whole, lanes=2)
    gated_judge = Evaluator(judge.bundle.folder, backend=gated, positions=192)

    async def test() -> None:
        async with room(gated_judge, gated) as at:
            first = at.ask(example(SHORT))
            await gated.begun(1)
            second = at.ask(example(OTHER))
            await gated.begun(2)
            gated.let(2)
            await asyncio.gather(first, second)
            third = at.ask(example(SHORT))
            gated.let(1)
            await third

    asyncio.run(test())
    assert gated.alone == [True, False, True]


class GatedWhole(GatedBackend):
    """As ``Whole``, but every call waits until it is let through."""

    def __init__(self, inner: Whole, lanes: int) -> None:
        super().__init__(inner, lanes)
        self.alone: list[bool] = []

    def run(self, windows: Windows) -> Outputs:
        self.alone.append(False)
        return super().run(windows)

    def run_alone(self, windows: Windows) -> Outputs:
        self.alone.append(True)
        return super().run(windows)


@pytest.mark.parametrize("file", ["model.onnx", "model.int8.onnx"])
def test_threads_change_no_bit(tiny_bundle: Path, file: str) -> None:
    backend = OnnxRuntimeBackend(tiny_bundle / file, threads=3, lanes=3)
    for seed, sizes in enumerate(grid(WINDOW)):
        windows = make_windows(sizes, VOCAB, seed)
        for one, other in zip(backend.run(windows), backend.run_alone(windows), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(sizes))


def test_threads_change_no_bit_of_the_shipped_engine(windows_of_512: Windows) -> None:
    backend = load_backend(read_bundle(DEFAULT_BUNDLE), threads=2, lanes=2)
    assert isinstance(backend, OnnxRuntimeBackend)
    for one, other in zip(
        backend.run(windows_of_512), backend.run_alone(windows_of_512), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def windows_of_512() -> Windows:
    """Return a full window and a short one, of words that the shipped model knows."""
    return make_windows(Sizes(N=2, L=512, B=2, R=60, K=1, C=300, S=5), 30_000, 1)


def test_a_large_graph_is_loaded_once(tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    really_open = onnx_runtime._open

    def note(path: Path, *given: Any, **named: Any) -> onnxruntime.InferenceSession:
        opened.append(path)
        return really_open(path, *given, **named)

    monkeypatch.setattr(onnx_runtime, "_open", note)
    file = tiny_bundle / "model.onnx"
    size = file.stat().st_size
    for most, times in ((size, 2), (size - 1, 1)):
        monkeypatch.setattr(onnx_runtime, "_SMALL", most)
        opened.clear()
        backend = OnnxRuntimeBackend(file, threads=2, lanes=2)
        assert opened == [file] * times
        windows = make_windows(grid(WINDOW)[0], VOCAB, 0)
        np.testing.assert_array_equal(
            backend.run_alone(windows).support_probs, backend.run(windows).support_probs
        )


def test_a_first_verdict_imports_no_more_of_numpy_than_it_needs() -> None:
    code = (
        "import sys, trivet\n"
        "trivet.evaluate('When?', ['It was built in 1884.'], 'It was built in 1894.')\n"
        "found = {'array_api_compat.numpy', 'numpy.f2py', 'numpy.ma', 'torch'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(found)) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
