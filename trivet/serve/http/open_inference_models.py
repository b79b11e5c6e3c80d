"""What clients of the Open Inference Protocol send and get; the texts stay in their tensors."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import FailFast, Field

from trivet.serve.http.parsing import Body
from trivet.serve.http.request_models import AllowEmpty, ExampleId, TimeoutMs
from trivet.serve.http.response_models import Answer

InputName: TypeAlias = Literal["question", "contexts", "response", "options_json"]
OutputName: TypeAlias = Literal[
    "faithfulness", "relevance", "utilization", "completeness", "verdict"
]
Parameters: TypeAlias = dict[str, Any]
_NONE: Parameters = Field(default={}, description="Extensions of the protocol.")


class Tensor(Body):
    """One input."""

    name: InputName
    shape: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], FailFast(), Field(max_length=8)]
    datatype: Literal["BYTES"] = Field(description="UTF-8 text.")
    parameters: Parameters = _NONE
    data: list[Any] | None = Field(default=None, description="Texts, nested or flat.")


class RequestedOutput(Body):
    """One output that the client wants."""

    name: OutputName
    parameters: Parameters = _NONE


class InferBody(Body):
    """A request of the Open Inference Protocol, version 2."""

    id: ExampleId = None
    parameters: Parameters = _NONE
    inputs: Annotated[list[Tensor], FailFast(), Field(max_length=16)]
    outputs: Annotated[list[RequestedOutput], FailFast(), Field(max_length=16)] = Field(default=[])


class InferOptions(Body):
    """What ``options_json`` may hold."""

    id: ExampleId = None
    timeout_ms: TimeoutMs = None
    allow_empty_contexts: AllowEmpty = False


class TensorFacts(Answer):
    """An input or output of the model; -1 is any length."""

    name: str
    datatype: str
    shape: list[int]


class OutputTensor(TensorFacts):
    """One output; its data may stand behind the JSON."""

    data: list[float | str] | None = None
    parameters: Parameters = _NONE


class InferAnswer(Answer):
    """An answer of the Open Inference Protocol, version 2."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


class ServerAnswer(Answer):
    """What the server is."""

    name: str
    version: str
    extensions: list[str]


class ModelAnswer(Answer):
    """What the model takes and gives."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorFacts]
    outputs: list[TensorFacts]
