"""``/v2``: the Open Inference Protocol, for clients of KServe and of NVIDIA Triton.

One example per request, under the names of the Triton model that ``trivet export triton`` writes.
A missing score is -1: FP32 has no null, and NaN is not JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import trivet
from trivet.records import Evaluation, RagExample, to_json_text
from trivet.serve.http.errors import RequestError
from trivet.serve.http.health import Health, constant_route, probe_route
from trivet.serve.http.request_models import parser
from trivet.serve.http.request_service import RequestService, timing_header
from trivet.serve.http.tensors import (
    LENGTH_HEADER,
    InferBody,
    InferOptions,
    OutputName,
    read_tensors,
    write_tensors,
)
from trivet.verdict_json import SCORES

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
    routes = [constant_route("/v2", server)]
    for path in (f"/v2/models/{NAME}", f"/v2/models/{NAME}/versions/{VERSION}"):
        routes += [
            constant_route(path, model),
            probe_route(f"{path}/ready", health.ready, {"name": NAME, "ready": True}),
            Route(f"{path}/infer", infer, methods=["POST"]),
        ]
    return routes


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
    """Return the JSON of an answer, and the bytes that follow it."""
    scores = {name: getattr(verdict, name) for name in SCORES}
    values: dict[str, float | str] = {
        name: NO_SCORE if score is None else score for name, score in scores.items()
    }
    if "verdict" in dict(wanted):
        values["verdict"] = verdict.to_json()
    fields, behind = write_tensors(head, [(name, values[name], binary) for name, binary in wanted])
    return to_json_text(fields).encode(), behind
