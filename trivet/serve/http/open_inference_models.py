"""Types of requests and answers of the Open Inference Protocol."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import FailFast, Field

from trivet.serve.http.request_models import AllowEmpty, Body, ExampleId, TimeoutMs
from trivet.serve.http.response_models import Answer

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


class InferOptions(Body):
    """The object in ``options_json``."""

    id: ExampleId = None
    timeout_ms: TimeoutMs = None
    allow_empty_contexts: AllowEmpty = False


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
