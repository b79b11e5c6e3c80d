"""Memory of training: its peak, estimated without weights or a GPU, and calls over slices.

The estimated step runs on fake tensors, which have shapes but no data, and the bytes alive are
counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import platform
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint
from transformers.initialization import no_init_weights

from trivet.configs.schema import TrainConfig
from trivet.errors import ConfigError
from trivet.model import mpnet_layers
from trivet.model.rag_model import RagModel, TokenLogits
from trivet.model.trunk import check_window, checkpoint_layers
from trivet.training.initialization import initial_architecture

logger = logging.getLogger(__name__)


GIB = 2**30
# Memory that torch reports for each GPU, in GiB.
GPUS = {"L4 (24 GB)": 22.0, "A100 (40 GB)": 39.4, "A100 (80 GB)": 79.1, "H100 (80 GB)": 79.1}
_CONTEXT = 1.0  # GiB of CUDA's context and libraries
_FRAGMENTS = 1.1  # memory reserved by torch relative to the memory of tensors; not measured
_KEPT = 1.35  # resident memory on a CPU relative to that of tensors: glibc keeps freed memory


@dataclass(frozen=True)
class MemoryEstimate:
    """Peak memory of a training step in bytes, by its parts."""

    parameters: int  # number of parameters
    trained: int  # number of parameters with a gradient
    weights: int  # parameters and buffers in fp32, and their average with ``optim.ema_decay``
    gradients: int  # gradients in fp32
    optimizer: int  # both moments of AdamW
    activations: int  # largest sum of everything else, over the step

    @property
    def total(self) -> int:
        """Return the peak of all tensors."""
        # Activations are largest before the gradients exist; the optimizer's step follows both.
        first = self.weights + self.optimizer + self.activations
        return max(first, self.weights + 2 * self.gradients + self.optimizer)

    @property
    def on_gpu(self) -> float:
        """Return the memory in GiB that a GPU needs, with CUDA's own and fragments."""
        return _CONTEXT + _FRAGMENTS * self.total / GIB

    @property
    def on_cpu(self) -> float:
        """Return the resident memory in GiB on a CPU, without data and libraries."""
        return _KEPT * self.total / GIB


class _FakeMode(FakeTensorMode):
    """Fake tensors whose copies (of an encoder for each head) belong to the same mode."""

    def __deepcopy__(self, memo: object) -> _FakeMode:
        return self


def estimate_memory(
    build: Callable[[], RagModel], windows: int, length: int, bf16: bool, gpu: bool
) -> MemoryEstimate:
    """Estimate the peak of a step that reads ``windows`` windows of ``length`` tokens per call.

    Args:
        build: Builds the model with random weights.
        windows: Windows per call of the encoder.
        length: Tokens per window.
        bf16: Whether the encoder computes in bf16.
        gpu: Whether to count what CUDA's kernels keep; else what the CPU's keep.
    """
    with _FakeMode(), _LiveBytes() as live, warnings.catch_warnings():
        # Copies of encoders, one for each head.
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
        # peft moves its layers to the encoder's device, which torch refuses for fake tensors.
        with (
            no_init_weights(),
            mock.patch.object(torch.nn.Module, "to", lambda self, *_, **__: self),
        ):
            model = build().train()
        weights = live.now
        trained = [each for each in model.parameters() if each.requires_grad]
        inputs = [torch.ones(windows, length, dtype=torch.long) for _ in range(3)]
        with _cuda_kernels() if gpu else contextlib.nullcontext():
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                logits = model.read(*inputs)
            torch.stack([each.float().sum() for each in logits.values()]).sum().backward()
        gradients = sum(4 * each.numel() for each in trained)
        return MemoryEstimate(
            parameters=sum(each.numel() for each in model.parameters()),
            trained=sum(each.numel() for each in trained),
            weights=weights,
            gradients=gradients,
            optimizer=2 * gradients,
            activations=live.peak - weights,
        )


def estimate_step(config: TrainConfig, gpu: bool) -> MemoryEstimate:
    """Estimate the peak of the configuration's training step, before any weights are loaded.

    Raises:
        ConfigError: The encoder's configuration cannot be read, or does not allow the trunk.
        BundleError: The first bundle is refused.
        WindowError: Windows are longer than the encoder allows.
    """
    described = initial_architecture(config)

    def build() -> RagModel:
        shaped = RagModel.from_architecture(described)
        check_window(shaped.trunk.config, config.window.size)
        if config.optim.checkpoint_layers:
            checkpoint_layers(shaped.trunk)
        return shaped

    windows = config.optim.most_windows
    bf16 = config.run.precision == "bf16"
    found = estimate_memory(build, windows, config.window.size, bf16, gpu)
    return replace(found, weights=2 * found.weights) if config.optim.ema_decay else found


def refuse_too_large(config: TrainConfig) -> None:
    """Raise ``ConfigError`` if a step exceeds ``run.memory_gib``, by default that of the GPU."""
    accelerator = config.run.accelerator
    cuda = accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available()
    available, device = config.run.memory_gib, "run.memory_gib"
    if available is None:
        if not cuda:
            return
        properties = torch.cuda.get_device_properties(0)
        available, device = properties.total_memory / GIB, properties.name
    gpu = cuda or accelerator not in ("auto", "cpu")
    estimate = estimate_step(config, gpu)
    needed = estimate.on_gpu if gpu else estimate.on_cpu
    if needed > available:
        raise ConfigError(
            f"optim.call_windows: a step needs about {needed:.1f} GiB, and {device} is "
            f"{available:.1f} GiB; lower optim.call_windows or set optim.checkpoint_layers=true "
            "(trivet train --dry-run prints the estimate)"
        )


def describe_memory(
    config: TrainConfig, on_cpu: MemoryEstimate, on_gpu: MemoryEstimate
) -> list[str]:
    """Return lines on the peak memory, its parts, and the GPUs that it fits."""
    parts = ("weights", "gradients", "optimizer", "activations")
    held = ", ".join(f"{part} {getattr(on_gpu, part) / GIB:.2f}" for part in parts)
    fits = [name for name, size in GPUS.items() if on_gpu.on_gpu <= size]
    calls = config.optim.most_windows
    return [
        f"peak memory on a GPU: {on_gpu.on_gpu:.1f} GiB for {calls} windows of "
        f"{config.window.size} tokens a call ({held})",
        f"peak memory on a CPU: {on_cpu.on_cpu:.1f} GiB, and the data",
        f"fits: {', '.join(fits) or 'none of ' + ', '.join(GPUS)}",
    ]


class _LiveBytes(TorchDispatchMode):
    """Counter of the bytes of all tensors alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._alive: set[int] = set()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._alive:
            self._alive.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._alive.discard(key)
        self.now -= size


@contextlib.contextmanager
def _cuda_kernels() -> Iterator[None]:
    """Replace CPU functions by what CUDA's keep for the backward pass, repeated layers included."""
    attend, softmax = functional.scaled_dot_product_attention, functional.softmax

    def fused(*args: Any, **kwargs: Any) -> Tensor:
        return attend(*args, **kwargs | {"dropout_p": 0.0})  # the CPU fuses none with dropout

    def in_fp32(given: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return softmax(given.float(), *args, **kwargs)  # as CUDA's autocast

    def dropout(given: Tensor, p: float = 0.5, training: bool = True, *_: Any) -> Tensor:
        # Keeps a mask of bytes.
        return torch.native_dropout(given, p, True)[0] if training and p else given

    with (
        mock.patch.object(functional, "scaled_dot_product_attention", fused),
        mock.patch.object(functional, "softmax", in_fp32),
        mock.patch.object(functional, "dropout", dropout),
        mock.patch.object(mpnet_layers, "_sums_scores", lambda _: False),
    ):
        yield


def keep_freed_memory() -> None:
    """Let glibc keep freed memory, since requesting it anew for each tensor slows torch on CPUs."""
    if platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    trim_threshold, mmap_threshold, most = -1, -3, 2**31 - 1  # names of glibc's malloc.h
    if not (mallopt(mmap_threshold, most) and mallopt(trim_threshold, most)):
        logger.warning("glibc refused the malloc thresholds; training on a CPU will be slower")


def read_in_slices(
    model: RagModel, inputs: Sequence[Tensor], most: int, heads: Collection[str] | None = None
) -> TokenLogits:
    """Run the encoder over at most ``most`` windows per call and concatenate the logits.

    The backward pass computes a slice again, with the same dropout, since only its logits are kept;
    the last slice comes first there and keeps its activations. ``heads`` are those to compute, by
    default all. *Shape of each input:* [N, L].
    """
    calls = -(-len(inputs[0]) // most)
    if calls <= 1:
        return model.read(*inputs, heads=heads)
    slices = list(zip(*(tensor.tensor_split(calls) for tensor in inputs), strict=True))
    if torch.is_grad_enabled():
        parts = [
            checkpoint(model.read, *part, heads=heads, use_reentrant=False) for part in slices[:-1]
        ]
    else:
        parts = [model.read(*part, heads=heads) for part in slices[:-1]]
    parts.append(model.read(*slices[-1], heads=heads))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
