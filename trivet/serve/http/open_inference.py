"""``/v2``: the Open Inference Protocol, for clients of KServe and of NVIDIA Triton.

One example per request, under the names of the Triton model that ``trivet export triton`` writes.
A missing score is -1: FP32 has no null, and NaN is not JSON. Tensors are in the JSON, or follow it
as the protocol's binary extension says: a header holds the length of the JSON, and each text
follows its own length of four bytes, little-endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import FailFast, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import trivet
from trivet.records import Evaluation, RagExample, to_json_text
from trivet.serve.http.errors import RequestError
from trivet.serve.http.health import Health, constant_route, probe_route
from trivet.serve.http.request_models import Body, ExampleId, RequestOptions, parser
from trivet.serve.http.request_service import RequestService, timing_header
from trivet.serve.http.response_models import Answer
from trivet.verdict_json import SCORES

LENGTH_HEADER = "Inference-Header-Content-Length"
_BINARY_SIZE = "binary_data_size"
_MOST_DIGITS = 19

InputName: TypeAlias = Literal["question", "contexts", "response", "options_json"]
OutputName: TypeAlias = Literal[
    "faithfulness", "relevance", "utilization", "completeness", "verdict"
]
Parameters: TypeAlias = dict[str, Any]
_NONE: Parameters = Field(default={}, description="Extensions of the protocol.")


class Tensor(Body):
    """An input."""

    name: InputName
    shape: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], FailFast(), Field(max_length=8)]
    datatype: Literal["BYTES"] = Field(description="UTF-8 text.")
    parameters: Parameters = _NONE
    data: list[Any] | None = Field(default=None, description="Texts, nested or flat.")


class RequestedOutput(Body):
    """A requested output."""

    name: OutputName
    parameters: Parameters = _NONE


class InferBody(Body):
    """A request of the Open Inference Protocol, version 2."""

    id: ExampleId = None
    parameters: Parameters = _NONE
    inputs: Annotated[list[Tensor], FailFast(), Field(max_length=16)]
    outputs: Annotated[list[RequestedOutput], FailFast(), Field(max_length=16)] = Field(default=[])


class InferOptions(RequestOptions):
    """The object in ``options_json``."""

    id: ExampleId = None


class TensorFacts(Answer):
    """An input or output of the model; -1 is any length."""

    name: str
    datatype: str
    shape: list[int]


class OutputTensor(TensorFacts):
    """An output; its data may follow the JSON."""

    data: list[float | str] | None = None
    parameters: Parameters = _NONE


class InferAnswer(Answer):
    """An answer of the Open Inference Protocol, version 2."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


class ServerAnswer(Answer):
    """The server and its extensions."""

    name: str
    version: str
    extensions: list[str]


class ModelAnswer(Answer):
    """Inputs and outputs of the model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorFacts]
    outputs: list[TensorFacts]


_parse = parser(InferBody)


def read_tensors(raw: bytes, header_length: str | None) -> tuple[InferBody, dict[str, list[str]]]:
    """Return the JSON of a request, and the texts of each input by its name.

    A malformed request raises a ``RequestError`` that names the input.
    """
    end = _json_end(header_length, len(raw))
    body = _parse(raw[:end])
    binary = memoryview(raw)[end:]
    found: dict[str, list[str]] = {}
    for tensor in body.inputs:
        name = tensor.name
        if name in found:
            raise RequestError("validation", f"input {name} is given twice")
        size = tensor.parameters.get(_BINARY_SIZE)
        if size is None:
            texts = _flat(tensor.data, name)
        else:
            texts, binary = _from_binary(binary, size, tensor)
        if math.prod(tensor.shape) != len(texts):
            holds = f"its shape {tensor.shape} holds {math.prod(tensor.shape)}"
            raise RequestError("validation", f"input {name} has {len(texts)} texts, but {holds}")
        found[name] = texts
    if binary:
        message = f"{len(binary)} bytes after the last input belong to no input"
        raise RequestError("validation", message)
    return body, found


def _json_end(header_length: str | None, size: int) -> int:
    if header_length is None:
        return size
    is_number = header_length.isascii() and header_length.isdigit()
    # Python refuses to convert thousands of digits.
    end = int(header_length) if is_number and len(header_length) < _MOST_DIGITS else -1
    if not 0 <= end <= size:
        message = f"{LENGTH_HEADER} must be a number of bytes from 0 to {size}"
        raise RequestError("validation", message)
    return end


def _flat(data: Any, name: str) -> list[str]:
    """Return the texts of a nested tensor."""
    if data is None:
        raise RequestError("validation", f"input {name} has no data")
    texts: list[str] = []
    for item in data:
        if isinstance(item, list):
            texts += _flat(item, name)
        elif isinstance(item, str):
            texts.append(item)
        else:
            raise RequestError("validation", f"input {name} must hold only strings")
    return texts


def _from_binary(binary: memoryview, size: Any, tensor: Tensor) -> tuple[list[str], memoryview]:
    """Return the texts of a binary tensor, and the bytes after it."""
    name = tensor.name
    if tensor.data is not None:
        raise RequestError("validation", f"input {name} has both data and {_BINARY_SIZE}")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(binary):
        most = f"{len(binary)}, the rest of the body"
        message = f"input {name}: {_BINARY_SIZE} must be a number of bytes up to {most}"
        raise RequestError("validation", message)
    own, texts, at = binary[:size], list[str](), 0
    while at < size:
        length = int.from_bytes(own[at : at + 4], "little")
        text = bytes(own[at + 4 : at + 4 + length])
        if at + 4 + length > size:
            raise RequestError("validation", f"input {name}: a text is longer than its tensor")
        try:
            texts.append(text.decode())
        except UnicodeDecodeError:
            raise RequestError("invalid_unicode", f"input {name} is not UTF-8") from None
        at += 4 + length
    return texts, binary[size:]


NAME, VERSION = "trivet", "1"
NO_SCORE = -1.0
OUTPUTS: tuple[str, ...] = get_args(OutputName)
_INPUTS = {"question": [1], "contexts": [-1], "response": [1], "options_json": [1]}

_parse_options = parser(InferOptions)


def open_inference_routes(service: RequestService, health: Health) -> list[Route]:
    """Return the routes of ``/v2`` except its health."""

    async def infer(request: Request) -> Response:
        header_length = request.headers.get(LENGTH_HEADER)
        body, texts = await service.read(request, lambda raw: read_tensors(raw, header_length))
        wanted = _wanted(body)
        example, options = _example(body, texts)
        predictions, verdict = await service.evaluate_one(request, example, options)
        head = {"model_name": NAME, "model_version": VERSION}
        if body.id is not None:
            head["id"] = body.id
        text, behind = await service.write(predictions, lambda: _written(head, wanted, verdict))
        headers = timing_header(predictions.seconds)
        if not behind:
            return Response(text, media_type="application/json", headers=headers)
        headers[LENGTH_HEADER] = str(len(text))
        return Response(text + behind, media_type="application/octet-stream", headers=headers)

    server = {"name": NAME, "version": trivet.__version__, "extensions": ["binary_tensor_data"]}
    scores = [{"name": name, "datatype": "FP32", "shape": [1]} for name in SCORES]
    model = {
        "name": NAME,
        "versions": [VERSION],
        "platform": "trivet",
        "inputs": [{"name": n, "datatype": "BYTES", "shape": s} for n, s in _INPUTS.items()],
        "outputs": [*scores, {"name": "verdict", "datatype": "BYTES", "shape": [1]}],
    }
    path = f"/v2/models/{NAME}"
    return [
        constant_route("/v2", server),
        constant_route(path, model),
        probe_route(f"{path}/ready", health.ready, {"name": NAME, "ready": True}),
        Route(f"{path}/infer", infer, methods=["POST"]),
    ]


def _wanted(body: InferBody) -> list[tuple[str, bool]]:
    """Return the requested outputs, and whether each is binary."""
    as_binary = body.parameters.get("binary_data_output") is True
    if not body.outputs:
        return [(name, as_binary) for name in OUTPUTS]
    return [
        (each.name, each.parameters.get("binary_data", as_binary) is True) for each in body.outputs
    ]


def _example(
    body: InferBody, texts: Mapping[str, Sequence[str]]
) -> tuple[RagExample, InferOptions]:
    """Return the example and its options."""
    missing = [name for name in _INPUTS if name not in texts and name != "options_json"]
    if missing:
        raise RequestError("validation", f"inputs: {', '.join(missing)} must be given")
    for tensor in body.inputs:
        if not _fits(tensor.shape, _INPUTS[tensor.name]):
            raise RequestError(
                "validation",
                f"input {tensor.name} has the shape {tensor.shape}, not {_INPUTS[tensor.name]}: "
                "one example per request",
            )
    options = InferOptions()
    if "options_json" in texts:
        try:
            options = _parse_options(texts["options_json"][0].encode())
        except RequestError as error:
            raise RequestError(error.error_type, f"options_json: {error.message}") from error
    contexts = tuple(texts["contexts"])
    return RagExample(texts["question"][0], contexts, texts["response"][0], options.id), options


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """Return whether a shape matches, with or without a batch dimension of 1."""
    bare = shape[1:] if len(shape) == 2 and shape[0] == 1 else shape
    return len(bare) == 1 and wanted[0] in (-1, bare[0])


def _written(
    head: Mapping[str, Any], wanted: Sequence[tuple[str, bool]], verdict: Evaluation
) -> tuple[bytes, bytes]:
    """Return the JSON of an answer, and the bytes of its binary outputs, which follow it."""
    written, behind = [], b""
    for name, is_binary in wanted:
        value = verdict.to_json() if name == "verdict" else getattr(verdict, name)
        value = NO_SCORE if value is None else value
        datatype = "BYTES" if isinstance(value, str) else "FP32"
        output: dict[str, Any] = {"name": name, "datatype": datatype, "shape": [1]}
        if is_binary:
            packed = _packed(value)
            output["parameters"] = {_BINARY_SIZE: len(packed)}
            behind += packed
        else:
            output["data"] = [value]
        written.append(output)
    return to_json_text({**head, "outputs": written}).encode(), behind


def _packed(value: float | str) -> bytes:
    if isinstance(value, float):
        return struct.pack("<f", value)
    text = value.encode()
    return len(text).to_bytes(4, "little") + text
