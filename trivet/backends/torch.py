"""Our inference module in torch: in 16 bits on a GPU, compiled and replayed; in fp32 on a CPU.

The encoder's matmuls run in 16 bits; layer norms, residual sums, softmax, heads and joining stay in
fp32, as in the graphs of ``exporting.precision``. The only module of the backends that imports
torch; it is imported when this backend is loaded.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from trivet.backends.backend import POSITIONS as CPU_POSITIONS
from trivet.backends.backend import LoadedBackend, call_error, check_self_test
from trivet.backends.device import check_driver, find_gpu
from trivet.backends.profiles import POSITIONS, STEP
from trivet.bundle.bundle import WEIGHTS_NAME, Bundle
from trivet.bundle.weights import load_rag_model
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.model.aggregate import Outputs
from trivet.model.inference.deberta import DebertaLayer
from trivet.model.inference.layer import Form, InferenceLayer
from trivet.model.inference.modernbert import ModernBertLayer
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel, TokenLogits, as_tensors, to_numpy
from trivet.settings import Precision

logger = logging.getLogger(__name__)

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Calls before the capture of a CUDA graph; they compile and choose kernels.
_WARM_UP = 3
# Versions of compiled code; most differ in dimensions of size 1 or equal dimensions.
_VERSIONS = 64


class _Recorded(NamedTuple):
    """A captured CUDA graph with its inputs and outputs, which every replay overwrites."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    logits: TokenLogits


class TorchBackend:
    """A model in torch on one device; ``run`` may be called from several threads.

    On a GPU, windows are padded to multiples of 64 positions and their number to a power of two.
    Encoder and heads are captured as one CUDA graph for each such shape at its first call; joining
    has many shapes and takes little time, so it is not captured.
    """

    def __init__(
        self,
        model: RagModel,
        window: int,
        device: torch.device | str = "cpu",
        precision: Precision = "fp32",
        *,
        form: Form | None = None,
        compiled: bool = True,
        threads: int | None = None,
    ) -> None:
        """Convert a model for inference.

        Args:
            model: Model in fp32; it must not be used afterwards.
            window: Most positions of a window.
            device: torch device.
            precision: Precision of the encoder's matmuls: ``fp32``, ``bf16`` or ``fp16``.
            form: Form of attention; ``None`` chooses by encoder and device.
            compiled: Whether layers are compiled and calls are replayed; only on a GPU.
            threads: Threads of torch in this process; ``None`` leaves them as they are.

        Raises:
            BackendError: A weight does not fit in fp16.
        """
        if threads is not None:
            torch.set_num_threads(threads)
        self._device, self._dtype = torch.device(device), TYPES[precision]
        on_gpu = self._device.type == "cuda"
        relative = model.trunk.config.model_type == "deberta-v2"
        form = form or ("portable" if relative or not on_gpu else "fused")
        self._model = cast(RagModel, inference_model(model, window, form).to(self._device))
        if precision != "fp32":
            _convert_weights(self._model, self._dtype)
        self._replayed = compiled and on_gpu
        if self._replayed:
            compile_layers(self._model)
        where = torch.cuda.get_device_name(self._device) if on_gpu else "cpu"
        self.name = f"torch {precision} on {where}"
        self._window = window
        self.positions, self.step = (POSITIONS, STEP) if on_gpu else (CPU_POSITIONS, 1)
        self.max_windows = POSITIONS // STEP
        self._recorded: dict[tuple[int, int], _Recorded] = {}
        # Calls run one after another, so all graphs share their memory.
        self._pool = torch.cuda.graph_pool_handle() if self._replayed else None
        self._lock = threading.Lock()

    def run(self, windows: Windows) -> Outputs:
        """Run the model once; see ``Backend.run``."""
        try:
            with self._lock, torch.no_grad(), self._on_device():
                inputs = as_tensors(windows, self._device)
                logits = self._replay(inputs[:3]) if self._replayed else self._read(inputs[:3])
                answer = self._model.join(logits, *inputs[1:])
                return to_numpy(answer)
        except Exception as error:  # compilers and drivers raise errors of many kinds
            raise call_error(self.name, windows, error) from error

    def _on_device(self) -> contextlib.AbstractContextManager[object]:
        on_gpu = self._device.type == "cuda"
        return torch.cuda.device(self._device) if on_gpu else contextlib.nullcontext()

    def _read(self, inputs: tuple[Tensor, ...]) -> TokenLogits:
        half = self._dtype != torch.float32
        # A cache would keep tensors of one captured graph for another.
        with torch.autocast(
            self._device.type, self._dtype if half else None, enabled=half, cache_enabled=False
        ):
            return self._model.read(*inputs)

    def _replay(self, inputs: tuple[Tensor, ...]) -> TokenLogits:
        """Return the logits of a captured call, valid until the next one."""
        n, length = inputs[0].shape
        shape = padded_shape(n, length, self._window)
        if shape not in self._recorded:
            self._recorded[shape] = self._record(shape)
        graph, buffers, logits = self._recorded[shape]
        for buffer, values in zip(buffers, inputs, strict=True):
            buffer.zero_()[:n, :length] = values
        graph.replay()
        return {name: values_[:n, :length] for name, values_ in logits.items()}

    def _record(self, shape: tuple[int, int]) -> _Recorded:
        """Capture the call of a shape as a CUDA graph."""
        buffers = tuple(
            torch.zeros(shape, dtype=torch.int64, device=self._device) for _ in range(3)
        )
        for _ in range(_WARM_UP):
            self._read(buffers)
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile.
        with torch.cuda.graph(graph, self._pool, capture_error_mode="thread_local"):
            logits = self._read(buffers)
        return _Recorded(graph, buffers, logits)


def padded_shape(n: int, length: int, window: int) -> tuple[int, int]:
    """Return the captured number of windows and of positions that take ``n`` of ``length``."""
    return 1 << (n - 1).bit_length(), min(-(-length // STEP) * STEP, window)


def load_torch(
    bundle: Bundle,
    threads: int | None = None,
    precision: Precision | None = None,
    device: str | None = None,
) -> LoadedBackend:
    """Load the weights of a bundle and run the self-test.

    Args:
        bundle: A bundle with weights, or with an int8 graph that they are read back from.
        threads: Threads of torch on a CPU.
        precision: ``fp32``, ``bf16`` or ``fp16``; ``None`` means fp16 on a GPU, fp32 on a CPU.
        device: Device as in ``find_gpu``.

    Raises:
        BundleError: There are no weights, or the self-test fails.
        BackendError: There is no such device, torch or the driver cannot use it, or it has not
            enough memory.
    """
    if precision == "int8":
        raise BundleError(f"{bundle.folder}: torch does not run int8; use fp32, bf16 or fp16")
    gpu = find_gpu(device)
    if gpu is not None:
        check_gpu()
    precision = precision or ("fp32" if gpu is None else "fp16")
    where = "cpu" if gpu is None else f"cuda:{gpu}"
    make = functools.partial(_load, bundle, threads, precision, where)
    if gpu is None:
        return make(compiled=False)
    try:
        return make(compiled=True)
    except BundleError as error:
        logger.warning("%s; trying without compilation, which is slower", error)
        return make(compiled=False)


def check_gpu() -> None:
    """Refuse a torch without CUDA, and one that the driver is too old for.

    Raises:
        BackendError: torch cannot use a GPU.
    """
    version = torch.version.cuda
    if version is None:
        raise BackendError(
            f"torch {torch.__version__} was built without CUDA; install a build with CUDA, or use "
            "--device cpu"
        )
    check_driver("torch", version)
    if not torch.cuda.is_available():
        raise BackendError(f"torch {torch.__version__} cannot use the GPU; use --device cpu")


def _load(
    bundle: Bundle, threads: int | None, precision: Precision, device: str, *, compiled: bool
) -> LoadedBackend:
    model, window = load_rag_model(bundle), bundle.info.window.size
    try:
        backend = TorchBackend(model, window, device, precision, compiled=compiled, threads=threads)
    except BackendError:
        raise
    except RuntimeError as error:  # a GPU without enough free memory, for example
        raise BackendError(f"torch cannot load {bundle.folder} on {device}: {error}") from error
    check_self_test(backend, bundle, WEIGHTS_NAME, precision)
    return LoadedBackend(backend, precision)


def _convert_weights(model: nn.Module, dtype: torch.dtype) -> None:
    """Convert the encoder's weights to 16 bits once; autocast would do it in every call.

    Raises:
        BackendError: A weight does not fit.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and not name.startswith("heads."):
            module.to(dtype)
            if not torch.isfinite(module.weight).all():
                raise BackendError(f"{name}: its weights do not fit in fp16; use --precision bf16")
        if isinstance(module, DebertaLayer):
            for table in ("position_keys", "position_queries"):
                if isinstance(held := getattr(module, table), Tensor):
                    setattr(module, table, held.to(dtype))


def compile_layers(model: nn.Module) -> None:
    """Compile layer by layer, because all layers share the compiled code.

    The attention of BERT, MPNet and ModernBERT is one kernel of the library: what comes after it is
    compiled, and in ModernBERT norm and rotation before it. The library's own encoders are not.
    """
    layers = {id(module.rest) for module in model.modules() if isinstance(module, DebertaLayer)}
    for module in model.modules():
        if isinstance(module, DebertaLayer):
            module.compile(dynamic=True, recompile_limit=_VERSIONS)
        elif isinstance(module, InferenceLayer) and id(module) not in layers:
            _compile_method(module, "finish")
        elif isinstance(module, ModernBertLayer):
            _compile_method(module, "rotated")
            _compile_method(module, "finish")


def _compile_method(module: nn.Module, name: str) -> None:
    compiled: Any = torch.compile
    setattr(module, name, compiled(getattr(module, name), dynamic=True, recompile_limit=_VERSIONS))
