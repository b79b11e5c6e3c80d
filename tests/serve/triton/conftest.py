"""A fake of the part of ``pb_utils`` that models see, and a repository to load into it.

No package has Triton's Python backend for numpy 2; ``test_tritonserver.py`` runs the same
repositories in a real server. The fake reads configs with Triton's own schema, checks names, types
and shapes of every tensor, and lets models call one another at the same time, as Triton does.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.records import RagExample

LONG = RagExample(
    "When was the old mill built?",
    tuple(f"Passage {n}. The old mill was built of stone in 18{n:02d}. " * 10 for n in range(12)),
    "The mill was built in 1807. It was made of wood.",
    id="long",
)
MODEL = "triton_python_backend_utils"
TYPES = {"TYPE_INT64": np.int64, "TYPE_FP32": np.float32, "TYPE_STRING": np.object_}


def as_bytes(texts: Sequence[str]) -> Any:
    """Return texts as Triton hands them over."""
    array = np.empty(len(texts), dtype=np.object_)
    array[:] = [text.encode() for text in texts]
    return array


class Tensor:
    def __init__(self, name: str, array: Any) -> None:
        assert isinstance(array, np.ndarray) and array.flags.c_contiguous, name
        self._name, self._array = name, array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        return self._array


class TritonError:
    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED = range(6)
    ALREADY_EXISTS, CANCELLED = 6, 7

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self._message, self._code = message, code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code


class InferenceResponse:
    def __init__(self, output_tensors: Sequence[Tensor], error: TritonError | None = None) -> None:
        self._tensors, self._error = list(output_tensors), error

    def output_tensors(self) -> list[Tensor]:
        return self._tensors

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error


class PreferredMemory:
    def __init__(self, preferred_memory_type: str, preferred_device_id: int = 0) -> None:
        assert (preferred_memory_type, preferred_device_id) == ("cpu", 0)


class Received:
    """An ``InferenceRequest`` as a model receives it."""

    def __init__(self, tensors: Mapping[str, Any], is_cancelled: Callable[[], bool]) -> None:
        self._tensors = [Tensor(name, array) for name, array in tensors.items()]
        self.is_cancelled = is_cancelled

    def inputs(self) -> list[Tensor]:
        return self._tensors


class FakeTriton:
    """The server: loads a repository and passes tensors on."""

    def __init__(self) -> None:
        self.models: dict[str, Any] = {}
        self.configs: dict[str, Any] = {}
        self.asked: list[tuple[int, ...]] = []  # shapes of input_ids in calls of the encoder

    def load(self, repository: Path) -> None:
        for folder in sorted(repository.iterdir()):
            config = read_config(folder / "config.pbtxt")
            assert config.name == folder.name
            version = str(config.version_policy.specific.versions[0])
            spec = importlib.util.spec_from_file_location("model", folder / version / "model.py")
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            with pytest.MonkeyPatch.context() as patch:  # tests share the repository and list it
                patch.setattr(sys, "dont_write_bytecode", True)
                spec.loader.exec_module(module)
            model = module.TritonPythonModel()
            arguments = {"model_repository": str(folder), "model_version": version}
            arguments["model_config"] = json_format.MessageToJson(
                config, preserving_proto_field_name=True
            )
            model.initialize(arguments)
            self.models[config.name], self.configs[config.name] = model, config

    def infer(
        self,
        name: str,
        tensors: Mapping[str, Any],
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> InferenceResponse:
        """Send one request."""
        if name not in self.models:
            return InferenceResponse([], TritonError(f"Model '{name}' is not ready."))
        config = self.configs[name]
        needed = {info.name for info in config.input if not info.optional}
        assert needed <= tensors.keys() <= {info.name for info in config.input}
        self._check(config.input, tensors)
        if "input_ids" in tensors:
            self.asked.append(tensors["input_ids"].shape)
        answer = self.models[name].execute([Received(tensors, is_cancelled)])
        (response,) = asyncio.run(answer) if inspect.iscoroutine(answer) else answer
        assert isinstance(response, InferenceResponse)
        if not response.has_error():
            outputs = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
            assert outputs.keys() == {info.name for info in config.output}
            self._check(config.output, outputs)
        return response

    def _check(self, infos: Any, tensors: Mapping[str, Any]) -> None:
        for info in infos:
            if info.name not in tensors:
                continue
            array = tensors[info.name]
            kind = model_config_pb2.DataType.Name(info.data_type)
            assert array.dtype == TYPES[kind], info.name
            assert array.ndim == len(info.dims), info.name
            fits = (want in (-1, have) for want, have in zip(info.dims, array.shape, strict=True))
            assert all(fits), (info.name, array.shape)


def read_config(path: Path) -> Any:
    """Read a config as Triton does: a field that its schema lacks is an error."""
    return text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())


@pytest.fixture(scope="session")
def backend_utils() -> Iterator[types.ModuleType]:
    """Install the fake as the module that models import."""
    module: Any = types.ModuleType(MODEL)
    module.server = FakeTriton()

    class InferenceRequest:
        def __init__(
            self,
            model_name: str,
            requested_output_names: Sequence[str],
            inputs: Sequence[Tensor],
            preferred_memory: PreferredMemory,
        ) -> None:
            assert isinstance(preferred_memory, PreferredMemory)
            self._model, self._outputs = model_name, list(requested_output_names)
            self._inputs = {tensor.name(): tensor.as_numpy() for tensor in inputs}

        def exec(self) -> InferenceResponse:
            response: InferenceResponse = module.server.infer(self._model, self._inputs)
            if response.has_error():
                return response
            by_name = {tensor.name(): tensor for tensor in response.output_tensors()}
            return InferenceResponse([by_name[name] for name in self._outputs])

        async def async_exec(self) -> InferenceResponse:
            return await asyncio.to_thread(self.exec)

    def by_name(tensors: Sequence[Tensor], name: str) -> Tensor | None:
        return next((tensor for tensor in tensors if tensor.name() == name), None)

    module.Tensor, module.TritonError, module.PreferredMemory = Tensor, TritonError, PreferredMemory
    module.InferenceRequest, module.InferenceResponse = InferenceRequest, InferenceResponse
    module.TRITONSERVER_MEMORY_CPU = "cpu"
    module.get_input_tensor_by_name = lambda request, name: by_name(request.inputs(), name)
    module.get_output_tensor_by_name = lambda answer, name: by_name(answer.output_tensors(), name)
    module.is_model_ready = lambda model_name: model_name in module.server.models
    sys.modules[MODEL] = module
    yield module
    for name in list(sys.modules):
        if name == MODEL or name.startswith("trivet.serve.triton."):
            del sys.modules[name]


@pytest.fixture
def serve(backend_utils: Any) -> Callable[[Path], FakeTriton]:
    """Return a function that loads a repository into a fake server."""

    def load(repository: Path) -> FakeTriton:
        server = backend_utils.server = FakeTriton()
        server.load(repository)
        return server

    return load


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded bundle, with the encoder in Triton's Python backend."""
    from trivet.serve.triton.repository import export_triton

    out = tmp_path_factory.mktemp("triton") / "repository"
    export_triton(EMBEDDED_BUNDLE, out, "python-onnx", threads=1)
    return out
