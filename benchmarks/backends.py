"""The backends of one bundle by the names of the tables, and what benchmarks do with a backend.

A bundle without a graph of some precision lacks that backend, and the tables say so.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from trivet.backends.backend import Backend, workers_of
from trivet.backends.opening import load_backend, load_tokenizer
from trivet.bundle.bundle import Bundle, read_bundle
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import Windows
from trivet.model.aggregate import Outputs
from trivet.settings import Precision

if TYPE_CHECKING:
    import torch

BACKENDS = ("int8", "fp32", "openvino", "openvino bf16", "torch", "torch eager", "torch bf16")
_CALLS = ("run", "run_all_threads")


def load_named(folder: Path, name: str, threads: int) -> tuple[Bundle, Backend]:
    """Load a bundle and one of its backends.

    Args:
        folder: Folder of the bundle.
        name: ``int8`` and ``fp32`` are graphs in ONNX Runtime; ``openvino`` is the graph that the
            export chose, or the int8 graph, ``openvino bf16`` the same in bf16; ``torch`` is the
            library's encoder in fp32 with scaled-dot-product attention, ``torch eager`` without
            it, ``torch bf16`` with matmuls in bf16.
        threads: Threads of the backend.

    Raises:
        BundleError: The bundle lacks it.
        BackendError: OpenVINO is not installed.
        ImportError: torch is not installed.
    """
    bundle = read_bundle(folder)
    kind, _, detail = name.partition(" ")
    if kind == "torch":
        return bundle, _torch(bundle, detail, threads)
    if kind == "openvino":
        precision = cast("Precision | None", detail or None)
        return bundle, load_backend(bundle, threads, precision, "openvino").backend
    return bundle, load_backend(
        bundle, threads, cast("Precision", name), "onnx", device="cpu"
    ).backend


def null_outputs(windows: Windows) -> Outputs:
    """Return one half everywhere; shapes as in ``Outputs``."""
    response, context = windows.response_at.shape[:2], windows.context_at.shape
    sentences = windows.sentence_pool.shape[:2]
    example = windows.response_at.shape[:1]
    shapes = (response, context, context, sentences, example, example, example, example)
    return Outputs(*(np.full(shape, 0.5, dtype=np.float32) for shape in shapes))


@contextlib.contextmanager
def recorded_calls(backend: Backend) -> Iterator[list[Windows]]:
    """Let a backend record its calls and answer ``null_outputs`` at once; yield the calls."""
    calls: list[Windows] = []

    def record(windows: Windows) -> Outputs:
        calls.append(windows)
        return null_outputs(windows)

    replaced = [name for name in _CALLS if hasattr(backend, name)]
    for name in replaced:
        setattr(backend, name, record)
    yield calls
    for name in replaced:
        delattr(backend, name)  # the class's own method is visible again


class CallClock:
    """Counts the seconds during which a backend runs at least one call.

    Attributes:
        seconds: Seconds so far; may be reset.
    """

    def __init__(self, backend: Backend) -> None:
        self.seconds = 0.0
        self._running, self._since = 0, 0.0
        self._lock = threading.Lock()
        for name in _CALLS:
            if hasattr(backend, name):
                setattr(backend, name, self._clocked(getattr(backend, name)))

    def _clocked(self, run: object) -> object:
        assert callable(run)

        def call(windows: Windows) -> object:
            self._count(1)
            try:
                return run(windows)
            finally:
                self._count(-1)

        return call

    def _count(self, change: int) -> None:
        with self._lock:
            now = time.perf_counter()
            if self._running:
                self.seconds += now - self._since
            self._running += change
            self._since = now


class BareBackend:
    """Runs prepared calls on a backend, as many at once as it has workers.

    Attributes:
        workers: Number of calls at once.
    """

    def __init__(self, backend: Backend) -> None:
        self.workers = workers_of(backend)
        self._run = backend.run
        self._pool = ThreadPoolExecutor(self.workers)

    def run(self, calls: Iterable[Windows]) -> None:
        """Run the calls and drop their answers."""
        for _ in self._pool.map(self._run, calls):
            pass


def tokenizer_of(folder: Path) -> SegmentTokenizer:
    """Return a bundle's tokenizer."""
    return load_tokenizer(read_bundle(folder))


class _TorchBackend:
    """A torch model as a backend."""

    def __init__(self, model: torch.nn.Module, name: str, threads: int, bf16: bool) -> None:
        import torch

        torch.set_num_threads(threads)
        self.name = name
        self._model = model.eval()
        self._bf16 = bf16

    def run(self, windows: Windows) -> Outputs:
        """Run the model; shapes as in ``Windows`` and ``Outputs``."""
        import torch

        from trivet.model.rag_model import as_tensors, to_numpy

        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
            return to_numpy(self._model(*as_tensors(windows)))


def _torch(bundle: Bundle, detail: str, threads: int) -> Backend:
    import transformers

    from trivet.bundle.weights import load_rag_model

    model = load_rag_model(bundle)
    for part in model.modules():
        if isinstance(part, transformers.BertModel):  # DeBERTa has only eager attention
            part.set_attn_implementation("eager" if detail == "eager" else "sdpa")
    return _TorchBackend(model, f"torch {detail}", threads, bf16=detail == "bf16")
