"""Calls of the Triton model ``encoder`` from within Triton.

For TensorRT, windows are padded here to a shape of an engine profile, as ``backends.tensorrt`` does
without Triton.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from trivet.backends.backend import POSITIONS
from trivet.backends.example_windows import Sizes
from trivet.backends.profiles import (
    STEP,
    choose_profile,
    cut,
    graph_sizes,
    most_positions,
    pad,
    padded_length,
    sizes_of,
    windows_limit,
)
from trivet.bundle.tensorrt_info import ShapeRange
from trivet.data.windows import Windows
from trivet.errors import BackendError
from trivet.model.aggregate import Outputs, output_names, outputs_from
from trivet.model.architecture import DEFAULT_HEADS


class EncoderUnavailable(BackendError):
    """The encoder is not loaded, or not yet."""


class EncoderCalls:
    """A model of the same server as a ``ShapedBackend``."""

    def __init__(
        self,
        model: str,
        inputs: Sequence[str],
        profiles: tuple[ShapeRange, ...],
        heads: Collection[str] = DEFAULT_HEADS,
    ) -> None:
        """Keep the settings: fields of ``Windows``, accepted shapes (empty: any), and heads."""
        self.name = f"triton {model}"
        self.positions, self.step, self.most_windows = POSITIONS, 1, POSITIONS
        if profiles:
            self.positions, self.step = most_positions(profiles), STEP
            self.most_windows = windows_limit(profiles)
        self._model, self._inputs, self._profiles = model, tuple(inputs), profiles
        self._outputs = output_names(heads)

    def run(self, windows: Windows) -> Outputs:
        """Call and wait; see ``Backend.run``."""
        sizes = sizes_of(windows)
        return self._read(self._request(windows, sizes).exec(), sizes)

    async def ask(self, windows: Windows) -> Outputs:
        """Call without blocking the event loop; otherwise as ``run``."""
        sizes = sizes_of(windows)
        return self._read(await self._request(windows, sizes).async_exec(), sizes)

    def _request(self, windows: Windows, sizes: Sizes) -> Any:
        arrays = pad(windows, self._padded(sizes))._asdict()
        return pb_utils.InferenceRequest(
            model_name=self._model,
            requested_output_names=list(self._outputs),
            inputs=[
                pb_utils.Tensor(name, np.ascontiguousarray(arrays[name])) for name in self._inputs
            ],
            # The answers are joined on the CPU.
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU),
        )

    def _padded(self, sizes: Sizes) -> Sizes:
        """Return the sizes that a call is padded to, or refuse what no profile accepts."""
        if not self._profiles:
            return sizes
        profile = self._profiles[choose_profile(self._profiles, sizes)]
        return graph_sizes(profile, sizes) or sizes._replace(L=padded_length(profile, sizes.L))

    def _read(self, response: Any, sizes: Sizes) -> Outputs:
        """Return the answer without padding, or raise the error of the encoder."""
        if response.has_error():
            # The error code does not tell: calls of models that are not loaded fail as INTERNAL.
            there = pb_utils.is_model_ready(model_name=self._model)
            kind = BackendError if there else EncoderUnavailable
            raise kind(f"{self._model}: {response.error().message()}")
        answer = outputs_from(
            {
                # A copy: the memory of the tensor is freed with the response.
                name: pb_utils.get_output_tensor_by_name(response, name).as_numpy().copy()
                for name in self._outputs
            }
        )
        return cut(answer, sizes)
