"""The model ``trivet``: texts in, a verdict out, the encoder asked in between.

Runs in Triton's Python backend, which imports the installed package: cutting, joining and reading
are the very code that ``trivet.Evaluator`` runs. The repository's ``model.py`` but names the class.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from trivet.bundle.bundle import INFO_NAME, SELF_TEST_NAME
from trivet.bundle.schema import parse_info
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.records import BackendError, BundleError, Evaluation, ExampleError, WindowError
from trivet.serve.triton.beside import find_bundle, read_parameters
from trivet.serve.triton.config import SCORES
from trivet.serve.triton.encoder_calls import EncoderCalls, EncoderUnavailable
from trivet.serve.triton.judging import Cancelled, judge
from trivet.serve.triton.request_texts import read_request

logger = logging.getLogger(__name__)

NO_SCORE = -1.0
"""What a score tensor holds where there is no such score; the verdict's JSON says ``null``."""


class TritonPythonModel:
    """What Triton's Python backend calls: one for each instance, one request at a time."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the bundle's tokenizer and settings.

        Raises:
            BundleError: The bundle is damaged, or not the one that the config was written for.
        """
        parameters = read_parameters(args)
        folder = find_bundle(args, parameters["bundle_sha256"])
        info = parse_info((folder / INFO_NAME).read_bytes(), INFO_NAME)
        on_card = parameters["encoder_kind"] == "tensorrt"
        self._encoder_model = parameters["encoder_model"]
        self._encoder = EncoderCalls(
            self._encoder_model,
            parameters["encoder_inputs"].split(","),
            info.engines[0].profiles if on_card else (),
        )
        self._evaluator = Evaluator(
            folder, backend=self._encoder, max_windows=int(parameters["max_windows"])
        )
        self._graph = parameters["graph"]
        self._test = read_self_test(folder / SELF_TEST_NAME)
        self._passed = False
        self._calls_in_flight = int(parameters["calls_in_flight"])

    async def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests; Triton hands over one at a time."""
        return list(await asyncio.gather(*(self._answer(request) for request in requests)))

    def is_ready(self) -> bool:
        """Return whether the encoder is there to be asked; Triton asks from 26.03 on."""
        return bool(pb_utils.is_model_ready(model_name=self._encoder_model))

    async def _answer(self, request: Any) -> Any:
        """Return one request's verdict, or the error that is its own."""
        try:
            return _to_response(await self._judge(request))
        except (ExampleError, WindowError) as error:
            code = getattr(error, "code", "window")
            return _to_error(f"{code}: {error}", pb_utils.TritonError.INVALID_ARG)
        except EncoderUnavailable as error:
            return _to_error(f"backend_unavailable: {error}", pb_utils.TritonError.UNAVAILABLE)
        except Cancelled:
            return _to_error("cancelled: by the client", pb_utils.TritonError.CANCELLED)
        except (BackendError, BundleError) as error:
            logger.error("backend_failed: %s", error)
            return _to_error(f"backend_failed: {error}", pb_utils.TritonError.INTERNAL)

    async def _judge(self, request: Any) -> Evaluation:
        asked = read_request(
            _tensor(request, "question"),
            _tensor(request, "contexts"),
            _tensor(request, "response"),
            _tensor(request, "options_json"),
        )
        await self._test_encoder()
        return await judge(
            self._evaluator,
            self._encoder.ask,
            asked.example,
            allow_empty_contexts=asked.options.allow_empty_contexts,
            calls_in_flight=self._calls_in_flight,
            is_cancelled=request.is_cancelled,
        )

    async def _test_encoder(self) -> None:
        """Let the encoder answer the bundle's stored self-test before it answers anyone.

        Not in ``initialize``, where Triton lets no model ask another.

        Raises:
            BundleError: It answers otherwise than at export.
            BackendError: It fails.
        """
        if self._passed:
            return
        answer = await self._encoder.ask(Windows(**self._test.arrays()))
        worst = self._test.check(self._graph, answer._asdict())
        logger.info("%s: self-test of %s within %.2g", self._encoder_model, self._graph, worst)
        self._passed = True


def _tensor(request: Any, name: str) -> Any:
    """Return the elements of an input; ``None`` where an optional one was not sent."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return None if tensor is None else tensor.as_numpy().reshape(-1)


def _to_response(verdict: Evaluation) -> Any:
    scores = {name: getattr(verdict, name) for name in SCORES}
    tensors = [
        pb_utils.Tensor(name, np.array([NO_SCORE if score is None else score], np.float32))
        for name, score in scores.items()
    ]
    text = verdict.to_json().encode()
    tensors.append(pb_utils.Tensor("verdict", np.array([text], dtype=np.object_)))
    return pb_utils.InferenceResponse(output_tensors=tensors)


def _to_error(message: str, code: int) -> Any:
    return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(message, code))
