"""Our inference module in torch on a device: products in bf16, layers compiled, calls replayed.

For a card without TensorRT: the same module, and the same places in bf16 as
``trivet.exporting.precision`` writes into a graph. On CUDA a call is captured once and replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from trivet.data.windows import Windows
from trivet.model.aggregate import Outputs
from trivet.model.inference.deberta import InferenceDeberta
from trivet.model.inference.layer import Form
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel, as_tensors

Call = Callable[[], Outputs]
"""Runs one call whose windows lie on the device already, where its answers stay."""

_BEFORE_CAPTURE = 3  # calls that compile, and let libraries choose their kernels
_SHAPES = 256  # more than any run has; beyond torch's own limit it would not compile


class DeviceEngine:
    """A model on a device.

    Args:
        model: With the library's encoder, in fp32; it is taken over and changed.
        longest: Most positions of a window.
        device: As torch names it: ``cuda`` or ``cpu``.
        form: How our module attends; ``None`` runs the library's encoder.
        compiled: Whether layers are compiled, and on CUDA calls replayed.
        bf16: Whether the encoder's products are in bf16.

    Raises:
        ValueError: It is to be compiled, and has no layers to compile.
    """

    def __init__(
        self,
        model: RagModel,
        longest: int,
        device: str,
        *,
        form: Form | None = "portable",
        compiled: bool = True,
        bf16: bool = True,
    ) -> None:
        self._model = model.eval() if form is None else inference_model(model, longest, form)
        self._device = torch.device(device)
        self._model.to(self._device)
        self._bf16 = bf16
        self._replayed = compiled and self._device.type == "cuda"
        # One call follows another, so that all may use the same memory.
        self._pool = torch.cuda.graph_pool_handle() if self._replayed else None
        self._kept: list[tuple[Tensor, ...]] = []  # a replay reads them where they lie
        if bf16:
            _halve_products(self._model)
        if compiled:
            _compile_layers(self._model)

    def prepare(self, windows: Windows) -> Call:
        """Bring windows to the device, run them until nothing is new, return what judges them.

        The answer of a replayed call holds until the next call of any windows.
        """
        given = as_tensors(windows, self._device)
        self._kept.append(given)

        def call() -> Outputs:
            with torch.no_grad(), torch.autocast(self._device.type, torch.bfloat16, self._bf16):
                return cast(Outputs, self._model(*given))

        for _ in range(_BEFORE_CAPTURE):
            call()
        self.wait()
        if not self._replayed:
            return call
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(given[0].device), torch.cuda.graph(graph, pool=self._pool):
            answer = call()

        def replay() -> Outputs:
            graph.replay()
            return answer

        return replay

    def wait(self) -> None:
        """Return when the device has nothing more to do."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _halve_products(model: nn.Module) -> None:
    """Keep in bf16 what the encoder multiplies by, which autocast would convert in every call."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and not name.startswith("heads."):
            module.to(torch.bfloat16)
        for table in ("position_keys", "position_queries"):
            if isinstance(held := getattr(module, table, None), torch.Tensor):
                setattr(module, table, held.to(torch.bfloat16))


def _compile_layers(model: nn.Module) -> None:
    """Compile layer by layer: all are alike, so that one compilation of a size serves them all.

    Raises:
        ValueError: There is no layer that is called as a whole.
    """
    found = [module for module in model.modules() if isinstance(module, InferenceDeberta)]
    if not found:
        raise ValueError("only our DeBERTa has layers that can be compiled one by one")
    for encoder in found:
        for layer in encoder.layers:
            layer.compile(dynamic=False, fullgraph=True, recompile_limit=_SHAPES)
