"""Fakes of TensorRT and CUDA that run a graph in ONNX Runtime; they do not need torch.

As on a GPU, work on a stream is done only when somebody waits for the stream.
"""

from __future__ import annotations

import ctypes
import enum
import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from trivet.bundle.info import INPUTS, OUTPUTS
from trivet.exporting.precision import emulated
from trivet.model.aggregate import Outputs

ENDS = (*INPUTS, *OUTPUTS[:-1])


class CudaError(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorNoDevice = 100


OK = CudaError.cudaSuccess


class FakeCuda:
    """``cuda.bindings.runtime`` on this machine's memory."""

    cudaError_t = CudaError
    cudaMemcpyKind = types.SimpleNamespace(cudaMemcpyHostToDevice=1, cudaMemcpyDeviceToHost=2)
    cudaStreamCaptureMode = types.SimpleNamespace(cudaStreamCaptureModeThreadLocal=1)
    cudaStreamNonBlocking = 1
    cudaHostAllocDefault = 0

    def __init__(self) -> None:
        self.gpus, self.launches = 1, 0
        self.memory: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.queues: list[list[Callable[[], Any]]] = []
        self.recording: dict[int, list[Callable[[], Any]]] = {}
        self.graphs: list[list[Callable[[], Any]]] = []

    def cudaGetDeviceCount(self) -> tuple[Any, ...]:
        return (OK, self.gpus) if self.gpus else (CudaError.cudaErrorNoDevice, None)

    def cudaGetErrorString(self, error: CudaError) -> tuple[Any, ...]:
        return OK, error.name.encode()

    def cudaGetDevice(self) -> tuple[Any, ...]:
        return OK, 0

    def cudaGetDeviceProperties(self, device: int) -> tuple[Any, ...]:
        return OK, types.SimpleNamespace(name=b"GPU\0\0", major=8, minor=9)

    def cudaMalloc(self, size: int) -> tuple[Any, ...]:
        memory = (ctypes.c_char * size)()
        self.memory[ctypes.addressof(memory)] = memory
        return OK, ctypes.addressof(memory)

    def cudaHostAlloc(self, size: int, flags: int) -> tuple[Any, ...]:
        return FakeCuda.cudaMalloc(self, size)

    def cudaFree(self, address: int) -> tuple[Any, ...]:
        del self.memory[address]
        return (OK,)

    cudaFreeHost = cudaFree

    def cudaStreamCreateWithFlags(self, flags: int) -> tuple[Any, ...]:
        self.queues.append([])
        return OK, len(self.queues) - 1

    def cudaStreamSynchronize(self, stream: int) -> tuple[Any, ...]:
        assert stream not in self.recording, "a recording stream cannot be waited for"
        while self.queues[stream]:
            self.queues[stream].pop(0)()
        return (OK,)

    def cudaMemcpyAsync(
        self, to: int, source: int, size: int, kind: int, stream: int
    ) -> tuple[Any, ...]:
        if min(len(self.memory[to]), len(self.memory[source])) < size:
            return (CudaError.cudaErrorInvalidValue,)
        self.add(stream, lambda: ctypes.memmove(to, source, size))
        return (OK,)

    def cudaStreamBeginCapture(self, stream: int, mode: int) -> tuple[Any, ...]:
        assert not self.queues[stream], "work was still queued"
        self.recording[stream] = []
        return (OK,)

    def cudaStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        self.graphs.append(self.recording.pop(stream))
        return OK, len(self.graphs) - 1

    def cudaGraphInstantiate(self, graph: int, flags: int) -> tuple[Any, ...]:
        return OK, graph

    def cudaGraphDestroy(self, graph: int) -> tuple[Any, ...]:
        return (OK,)

    def cudaGraphLaunch(self, graph: int, stream: int) -> tuple[Any, ...]:
        self.launches += 1
        self.queues[stream].extend(self.graphs[graph])
        return (OK,)

    def add(self, stream: int, work: Callable[[], Any]) -> None:
        """Queue or record some work."""
        self.recording.get(stream, self.queues[stream]).append(work)


class FakeContext:
    """``IExecutionContext``: runs the graph on the memory at the given addresses."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        self._profile = -1

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        self._profile = profile
        return 0 <= profile < len(self._engine.profiles)

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        least, _, most = self._engine.profiles[self._profile][name]
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
        (dims,) = (info.dims for info in ENDS if info.name == name)
        return tuple(sizes[letter] for letter in dims)

    def execute_async_v3(self, stream: int) -> bool:
        places = {
            info.name: (self._addresses[info.name], self.get_tensor_shape(info.name), info.dtype)
            for info in ENDS
        }

        def view(name: str) -> Any:
            address, shape, dtype = places[name]
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            raw = (ctypes.c_char * size).from_address(address)
            return np.frombuffer(memoryview(raw), dtype).reshape(shape)

        def work() -> None:
            feed = {info.name: view(info.name) for info in INPUTS}
            answers = self._engine.session.run(list(Outputs._fields[:-1]), feed)
            for name, answer in zip(Outputs._fields[:-1], answers, strict=True):
                view(name)[...] = answer + self._engine.fault

        self._engine.cuda.add(stream, work)
        return True


class FakeEngine:
    """``ICudaEngine`` of a graph that ONNX Runtime runs."""

    num_io_tensors = len(ENDS)

    def __init__(self, plan: bytes, cuda: FakeCuda, fault: float) -> None:
        head, _, graph = plan.partition(b"\n")
        self.profiles: list[dict[str, Any]] = json.loads(head)
        self.cuda, self.fault = cuda, fault
        content = emulated(onnx.load_from_string(graph)).SerializeToString()
        self.session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def get_tensor_name(self, number: int) -> str:
        return ENDS[number].name

    def create_execution_context(self, strategy: str) -> FakeContext:
        return FakeContext(self)


class FakeTensorRT(types.ModuleType):
    """``tensorrt`` whose engines are the ONNX file after a line with its profiles.

    Attributes:
        fault: Error that engines add to every output.
        readable: Whether the parser accepts graphs.
        max_profiles: Number of profiles after which one is refused.
        timings: Contents of the timing caches that were opened.
        parsed: Names of the graphs that were parsed.
        reads_attention: Whether the parser accepts graphs with ``Attention``.
    """

    def __init__(self, cuda: FakeCuda) -> None:
        super().__init__("tensorrt")
        self.__version__ = "11.1.0.106"
        self.cuda, self.fault, self.readable, self.max_profiles = cuda, 0.0, True, 1000
        self.timings: list[bytes] = []
        self.parsed: list[str] = []
        self.reads_attention = True
        self.IProgressMonitor = type("IProgressMonitor", (), {})
        self.ILogger = type("ILogger", (), {})
        self.NetworkDefinitionCreationFlag = types.SimpleNamespace(STRONGLY_TYPED=1)
        self.MemoryPoolType = types.SimpleNamespace(WORKSPACE="workspace")
        self.ExecutionContextAllocationStrategy = types.SimpleNamespace(ON_PROFILE_CHANGE="on")

    def Runtime(self, logger: Any) -> Any:
        def deserialize(plan: bytes) -> FakeEngine | None:
            return None if plan == b"other" else FakeEngine(plan, self.cuda, self.fault)

        return types.SimpleNamespace(deserialize_cuda_engine=deserialize)

    def Builder(self, logger: Any) -> Any:
        return FakeBuilder(self)

    def OnnxParser(self, network: Any, logger: Any) -> Any:
        def parse(content: bytes, path: str) -> bool:
            graph = onnx.load_from_string(content)
            onnx.load_external_data_for_model(graph, str(Path(path).parent))
            fused = [node for node in graph.graph.node if node.op_type == "Attention"]
            for node in fused:  # the attribute is TensorRT's own: ONNX Runtime refuses it
                assert node.attribute.pop().name == "TRT_decomposable"
            network.graph = graph.SerializeToString()
            self.parsed.append(Path(path).name)
            return self.readable and (not fused or self.reads_attention)

        fault = types.SimpleNamespace(
            desc=lambda: "no such thing", node_name=lambda: "node_1", node_operator=lambda: "Unique"
        )
        return types.SimpleNamespace(parse=parse, num_errors=1, get_error=lambda number: fault)


class FakeBuilder:
    """``Builder`` and, for brevity, the ``IBuilderConfig`` it creates."""

    progress_monitor: Any

    def __init__(self, tensorrt: FakeTensorRT) -> None:
        self._tensorrt = tensorrt
        self._profiles: list[dict[str, Any]] = []

    def create_network(self, flags: int) -> Any:
        assert flags == 1 << 1, "not strongly typed"
        names = [types.SimpleNamespace(name=info.name) for info in INPUTS]
        return types.SimpleNamespace(num_inputs=len(names), get_input=names.__getitem__)

    def create_builder_config(self) -> FakeBuilder:
        return self

    def create_optimization_profile(self) -> Any:
        shapes: dict[str, Any] = {}
        return types.SimpleNamespace(
            shapes=shapes, set_shape=lambda name, *ranges: shapes.update({name: ranges})
        )

    def set_memory_pool_limit(self, pool: str, size: int) -> None:
        assert pool == "workspace" and size > 0

    def add_optimization_profile(self, profile: Any) -> int:
        if len(self._profiles) >= self._tensorrt.max_profiles:
            return -1
        self._profiles.append(profile.shapes)
        return len(self._profiles) - 1

    def create_timing_cache(self, content: bytes) -> Any:
        self._tensorrt.timings.append(content)
        return types.SimpleNamespace(serialize=lambda: content + b"timed ")

    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        self._timing = cache
        return not ignore_mismatch

    def get_timing_cache(self) -> Any:
        return self._timing

    def build_serialized_network(self, network: Any, config: Any) -> bytes:
        graph: bytes = network.graph
        self.progress_monitor.phase_start("build", None, 2)
        self.progress_monitor.phase_start("a part", "build", 7)
        assert all(self.progress_monitor.step_complete("build", step) for step in range(2))
        self.progress_monitor.phase_finish("build")
        return json.dumps(self._profiles).encode() + b"\n" + graph


def cuda_modules(fake: FakeCuda) -> dict[str, types.ModuleType]:
    """Return the modules by which a CUDA is imported, under their names."""
    bindings = types.ModuleType("cuda.bindings")
    bindings.runtime = fake  # type: ignore[attr-defined]
    return {"cuda": types.ModuleType("cuda"), "cuda.bindings": bindings}
