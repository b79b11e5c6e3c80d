"""TensorRTBackend and the engine builder, on fakes of TensorRT and CUDA."""

from __future__ import annotations

import gc
import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.graphs import graph_of
from trivet.backends.cuda import Buffer
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.profiles import Sizes, make_profiles, make_windows
from trivet.backends.tensorrt import TensorRTBackend
from trivet.backends.tensorrt_build import EngineCache, build_engine, find_target
from trivet.bundle.backend_info import EngineInfo
from trivet.data.windows import Windows
from trivet.errors import BackendError
from trivet.model.aggregate import Outputs

WINDOW = 96


@pytest.fixture
def path(tmp_path: Path, fake_tensorrt: Any) -> Path:
    """File of the fp32 graph."""
    onnx.save(graph_of("bert"), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.fixture
def built(path: Path) -> tuple[bytes, EngineInfo]:
    """A serialized engine of the fp32 graph, and its description."""
    profiles = make_profiles(WINDOW)
    plan, seconds = build_engine(path, profiles, EngineCache())
    info = EngineInfo(
        graph=path.name,
        graph_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        precision="fp32",
        target=find_target(),
        profiles=profiles,
        engine_sha256=hashlib.sha256(plan).hexdigest(),
        build_seconds=seconds,
        date="2026-01-31",
        difference=0.0,
    )
    return plan, info


CASES = [
    Sizes(N=1, L=1, B=1, R=1, K=1, C=1, S=1),
    Sizes(N=1, L=96, B=1, R=20, K=1, C=60, S=1),
    Sizes(N=2, L=63, B=2, R=9, K=2, C=30, S=1),
    Sizes(N=2, L=63, B=1, R=9, K=2, C=30, S=4),
    Sizes(N=3, L=65, B=2, R=17, K=3, C=99, S=5),
    Sizes(N=16, L=96, B=5, R=40, K=4, C=200, S=1),
    Sizes(N=16, L=20, B=1, R=3, K=16, C=50, S=2),
    Sizes(N=1, L=50, B=1, R=4, K=1, C=10, S=1),
]


@pytest.mark.parametrize("threads", [1, 3])
def test_it_answers_as_the_graph_does_on_any_thread(
    built: tuple[bytes, EngineInfo], path: Path, threads: int
) -> None:
    backend, reference = TensorRTBackend(*built, contexts=2), OnnxRuntimeBackend(path)
    calls = [make_windows(sizes, 100, seed) for seed, sizes in enumerate(CASES * 2)]
    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(backend.run, calls))
    for sizes, windows, answer in zip(CASES * 2, calls, answers, strict=True):
        for name, want in reference.run(windows).present().items():
            have = getattr(answer, name)
            np.testing.assert_allclose(have, want, atol=1e-5, err_msg=f"{name} of {sizes}")
            assert have.dtype == np.float32
    assert backend.name == "tensorrt fp32 on GPU"


def test_small_calls_are_captured_once_and_replayed(
    built: tuple[bytes, EngineInfo], fake_cuda: Any
) -> None:
    backend = TensorRTBackend(*built, contexts=1)
    for seed in range(4):
        backend.run(make_windows(Sizes(2, 60 + seed % 2, 1, 5 + seed, 2, 20, 1), 100, seed))
    assert (len(fake_cuda.graphs), fake_cuda.launches) == (1, 4)
    backend.run(make_windows(Sizes(1, 60, 1, 5, 1, 20, 1), 100, 0))
    assert (len(fake_cuda.graphs), fake_cuda.launches) == (2, 5)
    backend.run(make_windows(Sizes(5, 60, 1, 5, 2, 20, 1), 100, 0))
    assert (len(fake_cuda.graphs), fake_cuda.launches) == (2, 5)


def test_memory_is_freed(
    built: tuple[bytes, EngineInfo], fake_cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = TensorRTBackend(*built)
    for sizes in (Sizes(2, 96, 1, 30, 1, 99, 1), Sizes(4, 96, 2, 30, 4, 99, 1)):
        backend.run(make_windows(sizes, 100, 0))
    assert len(fake_cuda.memory) == 2 * 2 * (len(Windows._fields) + len(Outputs._fields) - 1)
    del backend
    gc.collect()
    assert not fake_cuda.memory
    full, allocate = (fake_cuda.cudaError_t.cudaErrorInvalidValue, None), fake_cuda.cudaMalloc
    monkeypatch.setattr(fake_cuda, "cudaHostAlloc", lambda size, _: allocate(size))
    monkeypatch.setattr(fake_cuda, "cudaMalloc", lambda size: full)
    with pytest.raises(BackendError, match="CUDA failed"):
        Buffer(fake_cuda, 100)
    assert not fake_cuda.memory, "its twin"


def test_the_engine_works_after_a_failed_call(built: tuple[bytes, EngineInfo]) -> None:
    backend = TensorRTBackend(*built, contexts=1)
    with pytest.raises(BackendError, match="no profile of the engine takes"):
        backend.run(make_windows(Sizes(17, 96, 1, 1, 1, 1, 1), 100, 0))
    answer = backend.run(make_windows(Sizes(1, 9, 1, 1, 1, 1, 1), 100, 0))
    assert answer.faithfulness.shape == (1,)


def test_the_timing_cache_is_reused_by_the_next_build(path: Path, fake_tensorrt: Any) -> None:
    for _ in range(2):
        build_engine(path, make_profiles(WINDOW), EngineCache())
    assert fake_tensorrt.timings == [b"", b"timed "]
