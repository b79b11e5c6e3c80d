"""The Triton model ``encoder`` in the Python backend: the graph of the bundle in ONNX Runtime.

For servers without Triton's own ONNX Runtime and TensorRT backends, and for tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import triton_python_backend_utils as pb_utils

from trivet.backends.opening import load_onnx
from trivet.bundle.bundle import read_bundle
from trivet.data.windows import Windows
from trivet.errors import BackendError
from trivet.serve.triton.config import find_bundle, read_parameters
from trivet.settings import Precision


class TritonPythonModel:
    """Interface of Triton's Python backend."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the graph and run its self-test; raise ``BundleError`` if the bundle is refused."""
        parameters = read_parameters(args)
        bundle = read_bundle(find_bundle(args, parameters["bundle_sha256"]))
        precision = cast(Precision, parameters["precision"])
        threads = int(parameters["threads"]) or None
        # One worker: Triton runs one request at a time.
        self.backend = load_onnx(bundle, threads, precision, device="cpu").backend

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Run the graph once for each request."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        tensors = {
            name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            for name in Windows._fields
        }
        try:
            outputs = self.backend.run(Windows(**tensors))
        except BackendError as error:
            failed = pb_utils.TritonError(str(error), pb_utils.TritonError.INTERNAL)
            return pb_utils.InferenceResponse(output_tensors=[], error=failed)
        return pb_utils.InferenceResponse(
            output_tensors=[
                pb_utils.Tensor(name, array) for name, array in outputs.present().items()
            ]
        )
