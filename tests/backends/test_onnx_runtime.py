"""ONNX Runtime: threads change no bit, and a large graph is loaded once."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from trivet.backends import onnx_runtime
from trivet.backends.backend import cores, threads_per_worker, workers_of
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.opening import load_backend
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.bundle import read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.exporting.parity import grid
from trivet.model.aggregate import Outputs

WINDOW, VOCAB = 48, 150


def assert_same_bits(first: Outputs, other: Outputs) -> None:
    for name, values in first.present().items():
        np.testing.assert_array_equal(values, getattr(other, name), err_msg=name)


def test_threads_are_divided_among_the_workers() -> None:
    assert threads_per_worker(None, 1) == 0  # chosen by the backend
    assert threads_per_worker(7, 1) == 7
    assert threads_per_worker(7, 2) == 3
    assert threads_per_worker(4, 4) == 1
    assert threads_per_worker(None, cores()) == (1 if cores() > 1 else 0)
    with pytest.raises(ValueError, match=r"workers \(3\) must be from 1 to the 2 threads"):
        threads_per_worker(2, 3)
    with pytest.raises(ValueError, match=r"threads \(0\) must be at least 1"):
        threads_per_worker(0, 1)


@pytest.mark.parametrize("file", ["model.onnx", "model.int8.onnx"])
def test_threads_change_no_bit(tiny_bundle: Path, file: str) -> None:
    backend = OnnxRuntimeBackend(tiny_bundle / file, threads=3, workers=3)
    for seed, sizes in enumerate(grid(WINDOW)):
        windows = make_windows(sizes, VOCAB, seed)
        assert_same_bits(backend.run(windows), backend.run_all_threads(windows))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_and_workers_change_no_bit_of_the_embedded_bundle(threads: int) -> None:
    # A full window and a short one, of words that the model knows.
    windows = make_windows(Sizes(N=2, L=512, B=2, R=60, K=1, C=300, S=5), 30_000, 1)
    backend = load_backend(read_bundle(EMBEDDED_BUNDLE), threads=threads).backend
    assert isinstance(backend, OnnxRuntimeBackend)
    assert workers_of(backend) == threads
    expected = backend.run(windows)
    assert_same_bits(expected, backend.run_all_threads(windows))
    with ThreadPoolExecutor(threads) as pool:
        for answer in pool.map(backend.run, [windows] * 4):
            assert_same_bits(expected, answer)


def test_a_large_graph_is_loaded_once(tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    real = onnxruntime.InferenceSession

    def note(path: str, sess_options: Any, **options: Any) -> onnxruntime.InferenceSession:
        opened.append(sess_options.intra_op_num_threads)
        return real(path, sess_options, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", note)
    file = tiny_bundle / "model.onnx"
    size = file.stat().st_size
    for most, threads in ((size, [1, 2]), (size - 1, [1])):
        monkeypatch.setattr(onnx_runtime, "_SMALL", most)
        opened.clear()
        backend = OnnxRuntimeBackend(file, threads=2, workers=2)
        assert opened == threads
        windows = make_windows(grid(WINDOW)[0], VOCAB, 0)
        assert_same_bits(backend.run_all_threads(windows), backend.run(windows))


def test_a_first_verdict_imports_no_more_of_numpy_than_it_needs() -> None:
    code = (
        "import sys, trivet\n"
        "trivet.evaluate('When?', ['It was built in 1884.'], 'It was built in 1894.')\n"
        "found = {'array_api_compat.numpy', 'numpy.f2py', 'numpy.ma', 'torch'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(found)) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
