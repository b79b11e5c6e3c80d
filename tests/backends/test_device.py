"""Devices by name, drivers that are too old, and the backend that a device gets by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from trivet.backends import device as devices
from trivet.backends import opening
from trivet.backends.device import Driver, find_gpu
from trivet.backends.opening import OnnxGpuBackend, choose_backend, load_backend
from trivet.bundle.bundle import read_bundle
from trivet.errors import BackendError, BundleError


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the driver report two GPUs and CUDA 12.8."""
    monkeypatch.setattr(devices, "find_driver", lambda: Driver((12, 8), 2))


@pytest.mark.parametrize(
    ("device", "gpu"), [(None, 0), ("cpu", None), ("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)]
)
@pytest.mark.usefixtures("two_gpus")
def test_a_device_is_found_by_its_name(device: str | None, gpu: int | None) -> None:
    assert find_gpu(device) == gpu


@pytest.mark.usefixtures("two_gpus")
def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match="no device gpu; use cpu, cuda or cuda:N"):
        find_gpu("gpu")
    with pytest.raises(BackendError, match="no device cuda:2: CUDA finds 2 GPUs"):
        find_gpu("cuda:2")
    monkeypatch.setattr(devices, "find_driver", lambda: None)
    assert find_gpu(None) is None
    with pytest.raises(BackendError, match="no device cuda: CUDA finds no driver or no GPU"):
        find_gpu("cuda")


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("engine", "in_torch", "device", "chosen"),
    [
        (True, True, None, "tensorrt"),
        (True, True, "cuda:1", "torch"),
        (False, True, None, "torch"),
        (False, False, None, "onnx"),
        (True, True, "cpu", "onnx"),
    ],
)
def test_the_fastest_backend_of_a_device_is_the_default(
    tiny_bundle: Path,
    engine: bool,
    in_torch: bool,
    device: str | None,
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(opening, "_has_engine", lambda *_: engine)
    monkeypatch.setattr(opening, "_torch_runs_it", lambda *_: in_torch)
    bundle = read_bundle(tiny_bundle)
    assert choose_backend(bundle, None, device) == chosen
    assert ("faster: `trivet export tensorrt" in caplog.text) == (chosen == "torch")
    assert choose_backend(bundle, "int8", device) == "onnx"


@pytest.mark.usefixtures("two_gpus")
def test_onnx_runtime_without_cuda_is_used_on_the_cpu(tiny_bundle: Path) -> None:
    bundle = read_bundle(tiny_bundle)
    name = load_backend(bundle, 1, backend="onnx").backend.name
    assert name == "onnxruntime model.int8.onnx"
    with pytest.raises(BackendError, match="cannot use the GPU by its CUDAExecutionProvider"):
        load_backend(bundle, 1, backend="onnx", device="cuda")
    with pytest.raises(BundleError, match="int8 is for CPUs"):
        load_backend(bundle, 1, "int8", backend="onnx", device="cuda")
    with pytest.raises(BackendError, match="OpenVINO runs on the CPU, not on cuda"):
        load_backend(bundle, 1, backend="openvino", device="cuda")


@pytest.mark.gpu
def test_onnx_runtime_on_a_gpu_passes_the_self_test(tiny_bundle: Path) -> None:
    loaded = load_backend(read_bundle(tiny_bundle), backend="onnx", device="cuda")
    assert isinstance(loaded.backend, OnnxGpuBackend)
    assert loaded.precision == "fp32"
