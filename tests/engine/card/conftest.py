"""Stand-ins for TensorRT and CUDA that run an engine's graph in ONNX Runtime.

They have no name that the true libraries lack (test_names.py), and work on a stream is only done
when somebody waits for it, as on a card.
"""

from __future__ import annotations

import ctypes
import enum
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from trivet.bundle.schema import INPUTS, OUTPUTS
from trivet.exporting.precision import emulated
from trivet.model.aggregate import Outputs

DTYPES = {"int64": np.int64, "float32": np.float32}
DTYPE_OF = {info.name: DTYPES[info.dtype] for info in (*INPUTS, *OUTPUTS)}


class CudaError(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorNoDevice = 100
    cudaErrorInvalidValue = 1


class CopyKind(enum.IntEnum):
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2


class CaptureMode(enum.IntEnum):
    cudaStreamCaptureModeThreadLocal = 1


class FakeCuda:
    """``cuda.bindings.runtime`` whose card is this machine's memory."""

    cudaError_t = CudaError
    cudaMemcpyKind = CopyKind
    cudaStreamCaptureMode = CaptureMode
    cudaStreamNonBlocking = 1
    cudaHostAllocDefault = 0

    def __init__(self) -> None:
        self._cards = 1
        self._memory: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self._queues: dict[int, list[Callable[[], None]]] = {}
        self._recording: dict[int, list[Callable[[], None]]] = {}
        self._graphs: dict[int, list[Callable[[], None]]] = {}
        self._launches = 0

    def cudaGetDeviceCount(self) -> tuple[Any, ...]:
        if not self._cards:
            return CudaError.cudaErrorNoDevice, None
        return CudaError.cudaSuccess, self._cards

    def cudaGetErrorString(self, error: CudaError) -> tuple[Any, ...]:
        return CudaError.cudaSuccess, error.name.encode()

    def cudaGetDevice(self) -> tuple[Any, ...]:
        return CudaError.cudaSuccess, 0

    def cudaGetDeviceProperties(self, device: int) -> tuple[Any, ...]:
        return CudaError.cudaSuccess, types.SimpleNamespace(name=b"Card\0\0", major=8, minor=9)

    def cudaHostAlloc(self, size: int, flags: int) -> tuple[Any, ...]:
        return self.cudaMalloc(size)

    def cudaMalloc(self, size: int) -> tuple[Any, ...]:
        memory = (ctypes.c_char * size)()
        self._memory[ctypes.addressof(memory)] = memory
        return CudaError.cudaSuccess, ctypes.addressof(memory)

    def cudaFree(self, address: int) -> tuple[Any, ...]:
        del self._memory[address]
        return (CudaError.cudaSuccess,)

    def cudaFreeHost(self, address: int) -> tuple[Any, ...]:
        return self.cudaFree(address)

    def cudaStreamCreateWithFlags(self, flags: int) -> tuple[Any, ...]:
        stream = 1 + len(self._queues)
        self._queues[stream] = []
        return CudaError.cudaSuccess, stream

    def cudaStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        assert stream not in self._recording, "a stream that records cannot be waited for"
        while self._queues[stream]:
            self._queues[stream].pop(0)()
        return (CudaError.cudaSuccess,)

    def cudaMemcpyAsync(
        self, to: int, source: int, size: int, kind: CopyKind, stream: int
    ) -> tuple[Any, ...]:
        for address in (to, source):
            if len(self._memory[address]) < size:
                return (CudaError.cudaErrorInvalidValue,)
        self._add(stream, lambda: ctypes.memmove(to, source, size))
        return (CudaError.cudaSuccess,)

    def cudaStreamBeginCapture(self, stream: int, mode: CaptureMode) -> tuple[Any, ...]:
        assert not self._queues[stream], "work was still queued"
        self._recording[stream] = []
        return (CudaError.cudaSuccess,)

    def cudaStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        graph = len(self._graphs)
        self._graphs[graph] = self._recording.pop(stream)
        return CudaError.cudaSuccess, graph

    def cudaGraphInstantiate(self, graph: int, flags: int) -> tuple[Any, ...]:
        return CudaError.cudaSuccess, graph

    def cudaGraphDestroy(self, graph: int) -> tuple[Any, ...]:
        return (CudaError.cudaSuccess,)

    def cudaGraphLaunch(self, graph: int, stream: int) -> tuple[Any, ...]:
        self._launches += 1
        for work in self._graphs[graph]:
            self._add(stream, work)
        return (CudaError.cudaSuccess,)

    def _add(self, stream: int, work: Callable[[], Any]) -> None:
        self._recording.get(stream, self._queues[stream]).append(work)


class FakeContext:
    """``IExecutionContext``: runs the graph on what stands at the addresses it was given."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._profile = -1

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        self._profile = profile
        return 0 <= profile < len(self._engine._profiles)

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        least, _, most = self._engine._profiles[self._profile][name]
        self._shapes[name] = shape
        return all(a <= b <= c for a, b, c in zip(least, shape, most, strict=True))

    def set_tensor_address(self, name: str, address: int) -> bool:
        self._addresses[name] = address
        return True

    def infer_shapes(self) -> list[str]:
        return [info.name for info in INPUTS if info.name not in self._shapes]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        sizes: dict[str, int] = {}
        for info in INPUTS:
            sizes |= dict(zip(info.dims, self._shapes[info.name], strict=True))
        (info,) = (info for info in (*INPUTS, *OUTPUTS) if info.name == name)
        return tuple(sizes[letter] for letter in info.dims)

    def execute_async_v3(self, stream: int) -> bool:
        shapes = {name: self.get_tensor_shape(name) for name in self._addresses}
        addresses = dict(self._addresses)

        def view(name: str) -> Any:
            kind = np.dtype(DTYPE_OF[name])
            size = int(np.prod(shapes[name])) * kind.itemsize
            raw = (ctypes.c_char * size).from_address(addresses[name])
            return np.frombuffer(memoryview(raw), kind).reshape(shapes[name])

        def work() -> None:
            feed = {info.name: view(info.name) for info in INPUTS}
            answers = self._engine._session.run(list(Outputs._fields), feed)
            for name, answer in zip(Outputs._fields, answers, strict=True):
                view(name)[...] = answer + self._engine._fault

        self._engine._cuda._add(stream, work)
        return True


class FakeEngine:
    """``ICudaEngine`` of a graph that ONNX Runtime runs."""

    def __init__(self, plan: bytes, cuda: FakeCuda, fault: float) -> None:
        said, _, graph = plan.partition(b"\n")
        self._profiles: list[dict[str, Any]] = json.loads(said)
        self._cuda, self._fault = cuda, fault
        content = emulated(onnx.load_from_string(graph)).SerializeToString()
        self._session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        self.num_io_tensors = len(INPUTS) + len(OUTPUTS)

    def get_tensor_name(self, number: int) -> str:
        return (*INPUTS, *OUTPUTS)[number].name

    def create_execution_context(self, strategy: str) -> FakeContext:
        assert strategy == "on-profile-change"
        return FakeContext(self)


class FakeTensorRT(types.ModuleType):
    """``tensorrt``: what is built is the ONNX file, with its profiles before it."""

    def __init__(self, cuda: FakeCuda, version: str = "11.1.0.106") -> None:
        super().__init__("tensorrt")
        self.__version__ = version
        self._fault, self._readable, self._most_profiles = 0.0, True, 1000
        timings: list[bytes] = []
        self._timings = timings
        module = self

        class ILogger:
            def log(self, severity: Any, message: str) -> None:
                raise AssertionError(f"a logger of ours must take this: {message}")

        class Runtime:
            def __init__(self, logger: ILogger) -> None:
                assert isinstance(logger, ILogger)

            def deserialize_cuda_engine(self, plan: bytes) -> FakeEngine | None:
                return None if plan == b"other" else FakeEngine(plan, cuda, module._fault)

        class ITensor:
            def __init__(self, name: str) -> None:
                self.name = name

        class INetworkDefinition:
            def __init__(self) -> None:
                self._graph = b""
                self.num_inputs = len(INPUTS)

            def get_input(self, number: int) -> ITensor:
                return ITensor(INPUTS[number].name)

        class ParserError:
            def desc(self) -> str:
                return "no such thing"

            def node_name(self) -> str:
                return "node_1"

            def node_operator(self) -> str:
                return "Unique"

        class OnnxParser:
            def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
                self._network = network
                self.num_errors = 1

            def parse_from_file(self, path: str) -> bool:
                self._network._graph = Path(path).read_bytes()
                return module._readable

            def get_error(self, number: int) -> ParserError:
                return ParserError()

        class IOptimizationProfile:
            def __init__(self) -> None:
                self._shapes: dict[str, Any] = {}

            def set_shape(self, name: str, least: Any, usual: Any, most: Any) -> None:
                assert all(a <= b <= c for a, b, c in zip(least, usual, most, strict=True)), name
                self._shapes[name] = (least, usual, most)

        class ITimingCache:
            def __init__(self, content: bytes) -> None:
                self._content = content

            def serialize(self) -> bytes:
                return self._content + b"timed "

        class IBuilderConfig:
            def __init__(self) -> None:
                self._profiles: list[IOptimizationProfile] = []

            def set_memory_pool_limit(self, pool: str, size: int) -> None:
                assert pool == "workspace" and size > 0

            def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
                if len(self._profiles) >= module._most_profiles:
                    return -1
                self._profiles.append(profile)
                return len(self._profiles) - 1

            def create_timing_cache(self, content: bytes) -> ITimingCache:
                timings.append(content)
                return ITimingCache(content)

            def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
                self._timing = cache
                return not ignore_mismatch

            def get_timing_cache(self) -> ITimingCache:
                return self._timing

        class Builder:
            def __init__(self, logger: ILogger) -> None:
                assert isinstance(logger, ILogger)

            def create_network(self, flags: int) -> INetworkDefinition:
                assert flags == 1 << 1, "not strongly typed"
                return INetworkDefinition()

            def create_builder_config(self) -> IBuilderConfig:
                return IBuilderConfig()

            def create_optimization_profile(self) -> IOptimizationProfile:
                return IOptimizationProfile()

            def build_serialized_network(
                self, network: INetworkDefinition, config: IBuilderConfig
            ) -> bytes:
                profiles = [profile._shapes for profile in config._profiles]
                return json.dumps(profiles).encode() + b"\n" + network._graph

        self.ILogger, self.Runtime, self.Builder, self.OnnxParser = (
            ILogger,
            Runtime,
            Builder,
            OnnxParser,
        )
        self.NetworkDefinitionCreationFlag = types.SimpleNamespace(STRONGLY_TYPED=1)
        self.MemoryPoolType = types.SimpleNamespace(WORKSPACE="workspace")
        self.ExecutionContextAllocationStrategy = types.SimpleNamespace(
            ON_PROFILE_CHANGE="on-profile-change"
        )
        self._parts = {"ICudaEngine": FakeEngine, "IExecutionContext": FakeContext} | {
            each.__name__: each
            for each in (
                ITensor,
                INetworkDefinition,
                ParserError,
                IOptimizationProfile,
                ITimingCache,
                IBuilderConfig,
            )
        }


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """A card that is this machine's memory."""
    fake = FakeCuda()
    bindings = types.ModuleType("cuda.bindings")
    bindings.runtime = fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    return fake


@pytest.fixture
def fake_tensorrt(monkeypatch: pytest.MonkeyPatch, fake_cuda: FakeCuda) -> FakeTensorRT:
    """TensorRT on that card."""
    fake = FakeTensorRT(fake_cuda)
    monkeypatch.setitem(sys.modules, "tensorrt", fake)
    return fake
