"""Calls that are few for the workers have all threads, and answer the same bits."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.judges import FormulaBackend, GatedBackend
from tests.serve.scheduling.test_batcher_order import OTHER, SHORT, example, room
from trivet.backends import onnx_runtime
from trivet.backends.backend import Backend
from trivet.backends.example_windows import Sizes, make_windows
from trivet.backends.loading import EMBEDDED_BUNDLE, load_backend
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.bundle.bundle import read_bundle
from trivet.data.segment_tokenizer import SegmentTokenizer
from trivet.data.tokenization import tokenize_examples
from trivet.data.windows import Layout, Windows, WindowSettings, lay_out
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.inference_job import InferenceJob
from trivet.evaluation.packing import BatchLimits
from trivet.evaluation.worker_pool import WorkerPool
from trivet.exporting.parity import grid
from trivet.model.aggregate import Outputs
from trivet.records import BackendError, RagExample

WAIT_SECONDS = 30.0
WINDOW, VOCAB = 48, 150


class Wide:
    """Another engine, as one that can give a call all threads.

    Attributes:
        all_threads: For every call whether it was given them.
    """

    name = "all_threads"

    def __init__(self, workers: int, inner: Backend | None = None) -> None:
        self.workers = workers
        self.all_threads: list[bool] = []
        self._inner = inner or FormulaBackend()

    def run(self, windows: Windows) -> Outputs:
        self.all_threads.append(False)
        return self._inner.run(windows)

    def run_all_threads(self, windows: Windows) -> Outputs:
        self.all_threads.append(True)
        return self._inner.run(windows)


@pytest.fixture
def windows_apart(wordpiece_file: Path) -> list[Layout]:
    """Return layouts of one window each."""
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    examples = [RagExample("Who?", ("The keeper had a lamp.",), "The keeper.") for _ in range(16)]
    cut = WindowSettings(size=WINDOW)
    return [
        lay_out(read, cut, tokenizer.special) for read in tokenize_examples(examples, tokenizer)
    ]


def run(layouts: Sequence[Layout], backend: Wide, workers: WorkerPool) -> None:
    InferenceJob(layouts, backend, workers, 0, BatchLimits(1)).join("weakest_token")


@pytest.mark.parametrize(
    ("workers", "calls", "all_threads"),
    [
        (1, 1, 0),
        (2, 1, 1),
        (2, 2, 0),
        (2, 11, 1),
        (4, 1, 1),
        (4, 2, 2),
        (4, 3, 0),
        (4, 5, 1),
        (4, 8, 0),
        (8, 11, 3),
    ],
)
def test_the_last_calls_are_wide_where_they_are_few_for_the_lanes(
    windows_apart: list[Layout], workers: int, calls: int, all_threads: int
) -> None:
    backend = Wide(workers)
    run(windows_apart[:calls], backend, WorkerPool(workers))
    assert len(backend.all_threads) == calls
    assert sum(backend.all_threads) == all_threads


@pytest.mark.parametrize("other", ["runs", "waits"])
def test_beside_the_work_of_others_no_call_of_two_lanes_is_wide(
    windows_apart: list[Layout], other: str
) -> None:
    backend, workers, gate = Wide(2), WorkerPool(2), threading.Event()
    held_lanes = 1 if other == "runs" else 2
    begun = threading.Barrier(held_lanes + 1)

    def hold() -> bool:
        begun.wait(WAIT_SECONDS)
        return gate.wait(WAIT_SECONDS)

    held = [workers.submit(hold) for _ in range(held_lanes)]
    begun.wait(WAIT_SECONDS)
    running = InferenceJob(windows_apart[:1], backend, workers, 0, BatchLimits(1))
    if other == "waits":
        later = threading.Event()
        held += [workers.submit(lambda: later.wait(WAIT_SECONDS)) for _ in range(4)]
        gate.set()
        running.join("weakest_token")
        later.set()
    else:
        running.join("weakest_token")
        gate.set()
    assert all(each.result(WAIT_SECONDS) for each in held)
    assert backend.all_threads == [False]


def test_who_joins_is_told_at_once_when_the_rest_is_given_up(windows_apart: list[Layout]) -> None:
    backend, workers, gate = Wide(1), WorkerPool(1), threading.Event()
    held = workers.submit(lambda: gate.wait(WAIT_SECONDS))
    running = InferenceJob(windows_apart[:3], backend, workers, 0, BatchLimits(1))
    threading.Timer(0.05, running.cancel).start()
    with pytest.raises(CancelledError):
        running.join("weakest_token")
    assert not held.done(), "the worker is still another's"
    gate.set()


def test_what_waits_does_not_keep_lanes_alive(windows_apart: list[Layout]) -> None:
    backend, workers, gate = Wide(1), WorkerPool(1), threading.Event()
    begun = threading.Event()

    def hold() -> bool:
        begun.set()
        return gate.wait(WAIT_SECONDS)

    held = workers.submit(hold)
    assert begun.wait(WAIT_SECONDS)
    running = InferenceJob(windows_apart, backend, workers, 0, BatchLimits(1))
    lanes_are_gone = weakref.ref(workers)
    del workers, running
    gc.collect()
    assert lanes_are_gone() is None
    gate.set()
    assert held.result(WAIT_SECONDS)
    assert backend.all_threads == [], "nothing runs for workers that are gone"


def test_an_example_that_failed_runs_no_further(wordpiece_file: Path) -> None:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    example = RagExample("Who?", ("The keeper had a lamp. " * 60,), "The keeper.")
    cut = WindowSettings(size=WINDOW)
    (read,) = tokenize_examples([example], tokenizer)
    layout = lay_out(read, cut, tokenizer.special)
    formula, workers = FormulaBackend(), WorkerPool(1)
    formula.raises_on = int(layout.rows[0][0])
    running = InferenceJob([layout], formula, workers, 0, BatchLimits(1))
    (failed,) = running.join("weakest_token")
    assert isinstance(failed, BackendError)
    assert len(layout.rows) > 5 and len(formula.calls) == 1


def test_the_server_gives_all_threads_to_a_call_beside_which_nothing_runs(
    judge: Evaluator, formula: FormulaBackend
) -> None:
    gated = GatedBackend(formula, workers=2)
    backend = Wide(2, gated)
    gated_judge = Evaluator(judge.bundle.folder, backend=backend, positions=192)

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
    assert backend.all_threads == [True, False, True]


@pytest.mark.parametrize("file", ["model.onnx", "model.int8.onnx"])
def test_threads_change_no_bit(tiny_bundle: Path, file: str) -> None:
    backend = OnnxRuntimeBackend(tiny_bundle / file, threads=3, workers=3)
    for seed, sizes in enumerate(grid(WINDOW)):
        windows = make_windows(sizes, VOCAB, seed)
        for one, other in zip(backend.run(windows), backend.run_all_threads(windows), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(sizes))


@pytest.mark.parametrize("threads", [2, 8])
def test_threads_change_no_bit_of_the_shipped_engine(windows_of_512: Windows, threads: int) -> None:
    backend = load_backend(read_bundle(EMBEDDED_BUNDLE), threads=threads, workers=threads).backend
    assert isinstance(backend, OnnxRuntimeBackend)
    for one, other in zip(
        backend.run(windows_of_512), backend.run_all_threads(windows_of_512), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def windows_of_512() -> Windows:
    """Return a full window and a short one, of words that the shipped model knows."""
    return make_windows(Sizes(N=2, L=512, B=2, R=60, K=1, C=300, S=5), 30_000, 1)


def test_a_large_graph_is_loaded_once(tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[int, bool]] = []
    really_open = onnx_runtime._open

    def note(
        path: Path, threads: int, sums_fit: bool, *, spin: bool = True
    ) -> onnxruntime.InferenceSession:
        opened.append((threads, spin))
        return really_open(path, threads, sums_fit, spin=spin)

    monkeypatch.setattr(onnx_runtime, "_open", note)
    file = tiny_bundle / "model.onnx"
    size = file.stat().st_size
    worker, all_threads = (1, True), (2, False)
    for most, expected in ((size, [worker, all_threads]), (size - 1, [worker])):
        monkeypatch.setattr(onnx_runtime, "_SMALL", most)
        opened.clear()
        backend = OnnxRuntimeBackend(file, threads=2, workers=2)
        assert opened == expected
        windows = make_windows(grid(WINDOW)[0], VOCAB, 0)
        np.testing.assert_array_equal(
            backend.run_all_threads(windows).support_probs, backend.run(windows).support_probs
        )


def test_a_first_verdict_imports_no_more_of_numpy_than_it_needs() -> None:
    code = (
        "import sys, trivet\n"
        "trivet.evaluate('When?', ['It was built in 1884.'], 'It was built in 1894.')\n"
        "found = {'array_api_compat.numpy', 'numpy.f2py', 'numpy.ma', 'torch'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(found)) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
