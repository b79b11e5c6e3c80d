"""Every name we use of TensorRT and CUDA exists in their lists of names, and in the wheels."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from trivet.backends import cuda

LIST = json.loads((Path(__file__).parent / "names.json").read_text())
BACKENDS = Path(cuda.__file__).parent


def wheel(name: str) -> Any:
    """Import a library, or skip the test where it is missing or broken."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError) as error:
        pytest.skip(f"{name} is not installed: {error}")


def test_our_code_uses_no_other_name_of_cuda() -> None:
    text = (BACKENDS / "cuda.py").read_text(encoding="utf-8")
    used = set(re.findall(r"runtime\.(cuda\w+)", text))
    assert used == set(LIST["cuda"]["names"])


def test_our_code_uses_no_other_name_of_tensorrt() -> None:
    listed = {name for names in LIST["names"].values() for name in names} | set(LIST["names"])
    objects = "tensorrt|builder|network|parser|config|profile|context|_context|_engine|engine"
    text = "".join(
        (BACKENDS / file).read_text(encoding="utf-8")
        for file in ("tensorrt.py", "tensorrt_build.py")
    )
    # Imports of our own modules have names of ours.
    code = "\n".join(line for line in text.splitlines() if not line.startswith(("from", "import")))
    used = set(re.findall(rf"(?<![\w\"])(?:self\.)?(?:{objects})\.(\w+)", code))
    assert {"create_network", "execute_async_v3", "set_shape"} <= used
    ours = {"__version__", "least", "usual", "most"}
    assert used - listed - ours == set()


def test_the_runtime_wheel_has_every_name() -> None:
    # No Runtime is made: without a driver that ends the process.
    lean = wheel("tensorrt_lean_bindings")
    for part in LIST["runtime"]:
        missing = set(LIST["names"][part]) - set(dir(getattr(lean, part)))
        assert not missing, (part, missing)
    assert lean.ILogger.Severity.WARNING.name == "WARNING"
    for answer in ("set_input_shape", "set_tensor_address", "execute_async_v3"):
        assert "-> bool" in getattr(lean.IExecutionContext, answer).__doc__


def test_a_logger_of_the_runtime_wheel_writes_to_ours(caplog: pytest.LogCaptureFixture) -> None:
    from trivet.backends.tensorrt import make_logger

    lean = wheel("tensorrt_lean_bindings")
    log = make_logger(lean)
    log.log(lean.ILogger.Severity.WARNING, "too small a workspace")
    assert caplog.record_tuples == [
        ("trivet.backends.tensorrt", 30, "TensorRT: too small a workspace")
    ]


def test_the_builder_has_every_name() -> None:
    tensorrt = wheel("tensorrt")
    for part, names in LIST["names"].items():
        assert set(names) <= set(dir(getattr(tensorrt, part))), part


def test_the_cuda_wheel_has_every_name() -> None:
    runtime = wheel("cuda.bindings.runtime")
    assert set(LIST["cuda"]["names"]) <= set(dir(runtime))
    kinds = ("cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost")
    assert all(hasattr(runtime.cudaMemcpyKind, kind) for kind in kinds)
    mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
    assert int(mode) == 1
    status, words = runtime.cudaGetErrorString(runtime.cudaError_t.cudaErrorNoDevice)
    assert status == runtime.cudaError_t.cudaSuccess and words
