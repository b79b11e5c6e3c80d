"""The Triton model ``trivet``: texts in, a verdict out, with calls of the encoder in between.

Runs in Triton's Python backend with the installed package; the repository's ``model.py`` only names
the class. The steps are those of ``trivet.Evaluator``; only the waiting for the encoder differs.
For TensorRT, windows are padded here to a shape of an engine profile, as ``backends.tensorrt`` does
without Triton.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import triton_python_backend_utils as pb_utils
from pydantic import Field, ValidationError

from trivet.backends.backend import POSITIONS
from trivet.backends.profiles import (
    Sizes,
    choose_profile,
    cut,
    graph_sizes,
    max_positions,
    pad,
    padded_length,
    padding_step,
    sizes_of,
    windows_limit,
)
from trivet.bundle.backend_info import ShapeRange
from trivet.bundle.bundle import INFO_NAME, SELF_TEST_NAME, parse_info
from trivet.bundle.manifest import Part
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError, ExampleError, WindowError, fault_words
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import BackendCall
from trivet.heads import DEFAULT_HEADS
from trivet.model.aggregate import Outputs, output_names, outputs_from
from trivet.records import Evaluation, RagExample
from trivet.serve.option_types import Strict, Threshold
from trivet.serve.triton.config import find_bundle, read_parameters
from trivet.verdict_json import SCORES

logger = logging.getLogger(__name__)


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
        self.positions, self.step, self.max_windows = POSITIONS, 1, POSITIONS
        if profiles:
            self.positions, self.step = max_positions(profiles), padding_step(profiles)
            self.max_windows = windows_limit(profiles)
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


_MAX_ID = 1_000  # characters


class JudgeOptions(Part):
    """Content of ``options_json``; see ``Evaluator.evaluate``."""

    id: Annotated[str, Field(max_length=_MAX_ID)] | None = None
    allow_empty_contexts: bool = False
    threshold: Threshold = None
    strict: Strict = False


def read_request(
    question: Iterable[Any],
    contexts: Iterable[Any],
    response: Iterable[Any],
    options_json: Iterable[Any] | None = None,
) -> tuple[RagExample, JudgeOptions]:
    """Return the example and the options in the input tensors of one request.

    Every tensor has one element of bytes, except ``contexts``, which has any number.

    Raises:
        ExampleError: A text is not UTF-8 or missing, or the options are not ``JudgeOptions``.
    """
    options = JudgeOptions()
    if options_json is not None:
        try:
            options = JudgeOptions.model_validate_json(_only("options_json", options_json))
        except ValidationError as error:
            fault = fault_words(error, 1, ("options_json",))
            raise ExampleError(fault, code="validation") from error
    example = RagExample(
        question=_only("question", question),
        contexts=tuple(_decode(f"contexts[{n}]", text) for n, text in enumerate(contexts)),
        response=_only("response", response),
        id=options.id,
    )
    return example, options


def _only(name: str, tensor: Iterable[Any]) -> str:
    texts = list(tensor)
    if len(texts) != 1:
        raise ExampleError(f"{name} has {len(texts)} elements, and must have one")
    return _decode(name, texts[0])


def _decode(name: str, content: Any) -> str:
    if not isinstance(content, bytes):
        raise ExampleError(f"{name} must be of bytes, not {type(content).__name__}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ExampleError(
            f"{name} is not UTF-8: byte {content[error.start]:#04x} at {error.start} of "
            f"{len(content)} ({error.reason})",
            code="invalid_unicode",
        ) from error


NO_SCORE = -1.0
"""Value of a score tensor without a score; the JSON of the verdict has ``null``."""


class Cancelled(RuntimeError):
    """The client went away; the remaining calls were not made."""


class TritonPythonModel:
    """Interface of Triton's Python backend: one per instance, one request at a time."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the tokenizer and the settings of the bundle; raise ``BundleError`` if refused."""
        parameters = read_parameters(args)
        folder = find_bundle(args, parameters["bundle_sha256"])
        info = parse_info((folder / INFO_NAME).read_bytes(), INFO_NAME)
        on_gpu = parameters["encoder_kind"] == "tensorrt"
        self._encoder_model = parameters["encoder_model"]
        self._encoder = EncoderCalls(
            self._encoder_model,
            parameters["encoder_inputs"].split(","),
            info.engines[0].profiles if on_gpu else (),
            info.heads,
        )
        self.evaluator = Evaluator(
            folder, backend=self._encoder, max_windows=int(parameters["max_windows"])
        )
        self._graph = parameters["graph"]
        self._test = read_self_test(folder / SELF_TEST_NAME)
        self.self_tested = False
        self.calls_in_flight = int(parameters["calls_in_flight"])

    async def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests; Triton passes one at a time."""
        return list(await asyncio.gather(*(self._answer(request) for request in requests)))

    def is_ready(self) -> bool:
        """Return whether the encoder is ready; Triton asks from 26.03 on."""
        return bool(pb_utils.is_model_ready(model_name=self._encoder_model))

    async def _answer(self, request: Any) -> Any:
        """Return the verdict on one request, or its error."""
        try:
            return _to_response(await self._evaluate(request))
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

    async def _evaluate(self, request: Any) -> Evaluation:
        """Evaluate the example of one request; errors as ``_answer`` catches them."""
        names = ("question", "contexts", "response", "options_json")
        asked, options = read_request(*(_tensor(request, name) for name in names))
        await self._test_encoder()
        batch = self.evaluator.prepare([asked], **options.model_dump(exclude={"id"}))
        job, calls = batch.job, list[BackendCall]()
        while job.places:
            windows = [window[1:] for window in job.take(self.evaluator.limits)]
            calls.append(BackendCall(windows, number=len(calls)))
        gate = asyncio.Semaphore(self.calls_in_flight)

        async def run(call: BackendCall) -> None:
            async with gate:
                if not call.is_needed():
                    return
                if request.is_cancelled():
                    raise Cancelled
                try:
                    call.answer = await self._encoder.ask(call.collate(self.evaluator.pad))
                except BackendError as error:
                    call.answer = error
                call.add()

        # Wait for all calls, also after a failure: none may outlive its request.
        for ended in await asyncio.gather(*map(run, calls), return_exceptions=True):
            if ended is not None:
                raise ended
        job.count_off(job.windows, 0.0, 0.0)
        (verdict,) = batch.verdicts()
        if not isinstance(verdict, Evaluation):
            raise verdict
        return verdict

    async def _test_encoder(self) -> None:
        """Run the self-test before the first answer; in ``initialize`` no model can be called."""
        if self.self_tested:
            return
        answer = await self._encoder.ask(Windows(**self._test.arrays()))
        worst = self._test.check(self._graph, answer.present())
        logger.info("%s: self-test of %s within %.2g", self._encoder_model, self._graph, worst)
        self.self_tested = True


def _tensor(request: Any, name: str) -> Any:
    """Return the elements of an input; ``None`` if an optional one was not sent."""
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
