"""The inference module in torch on a GPU without TensorRT: bf16, compiled layers, CUDA graphs.

bf16 is used in the same places as by ``trivet.exporting.precision``.
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
"""One call whose inputs and outputs are on the device."""

_BEFORE_CAPTURE = 3  # warm-up calls, which compile and choose kernels
_SHAPES = 256  # torch's own limit of compiled shapes is lower


class DeviceModel:
    """A model on a device.

    Args:
        model: Model with the library's encoder in fp32; it is changed.
        longest: Maximal positions of a window.
        device: torch device, ``cuda`` or ``cpu``.
        form: Attention form of the inference module; ``None`` runs the library's encoder.
        compiled: Whether layers are compiled and, on CUDA, calls are replayed.
        bf16: Whether the encoder's matmuls are in bf16.

    Raises:
        ValueError: ``compiled`` is set and the model has no layers to compile.
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
        # Calls run one after the other, so all may share memory.
        self._pool = torch.cuda.graph_pool_handle() if self._replayed else None
        self._kept: list[tuple[Tensor, ...]] = []  # replays read these inputs
        if bf16:
            _convert_weights(self._model)
        if compiled:
            _compile_layers(self._model)

    def prepare(self, windows: Windows) -> Call:
        """Copy windows to the device, warm up, and return the call on them.

        The answer of a replayed call is valid until the next call.
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
        """Wait until the device is idle."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _convert_weights(model: nn.Module) -> None:
    """Convert the encoder's weights to bf16 once; autocast would do it in every call."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and not name.startswith("heads."):
            module.to(torch.bfloat16)
        for table in ("position_keys", "position_queries"):
            if isinstance(held := getattr(module, table, None), torch.Tensor):
                setattr(module, table, held.to(torch.bfloat16))


def _compile_layers(model: nn.Module) -> None:
    """Compile layer by layer, because all layers share one compilation.

    Raises:
        ValueError: The model is not our DeBERTa.
    """
    found = [module for module in model.modules() if isinstance(module, InferenceDeberta)]
    if not found:
        raise ValueError("only our DeBERTa has layers that can be compiled one by one")
    for encoder in found:
        for layer in encoder.layers:
            layer.compile(dynamic=False, fullgraph=True, recompile_limit=_SHAPES)
