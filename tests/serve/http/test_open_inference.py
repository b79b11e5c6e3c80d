"""The Open Inference Protocol: the same verdict in tensors, and refusals by name."""

from __future__ import annotations

import json
import struct
from typing import Any

import httpx2
import pytest

import trivet
from tests.serve.http.conftest import EXAMPLE, Asked, refusal
from trivet.evaluation.evaluator import Evaluator
from trivet.serve.http.open_inference import OUTPUTS

INFER = "/v2/models/trivet/infer"
LENGTH = "inference-header-content-length"
Inputs = list[dict[str, Any]]


def tensor(name: str, *texts: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": [len(texts)], "datatype": "BYTES", "data": list(texts), **more}


@pytest.fixture
def inputs() -> Inputs:
    return [
        tensor("question", EXAMPLE["question"]),
        tensor("contexts", *EXAMPLE["contexts"], "It is red."),
        tensor("response", EXAMPLE["response"]),
    ]


def outputs_of(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return {output["name"]: output for output in answer.json()["outputs"]}


def expected(embedded: Evaluator, **more: Any) -> Any:
    asked = {**EXAMPLE, "contexts": [*EXAMPLE["contexts"], "It is red."], **more}
    return json.loads(embedded.evaluate(**asked).to_json())


def test_the_verdict_comes_in_tensors(server: Asked, embedded: Evaluator, inputs: Inputs) -> None:
    answer = server.post(INFER, {"id": "r1", "inputs": inputs})
    body, verdict = answer.json(), expected(embedded)
    assert (body["id"], body["model_name"], body["model_version"]) == ("r1", "trivet", "1")
    outputs = outputs_of(answer)
    assert list(outputs) == list(OUTPUTS)
    assert json.loads(outputs["verdict"]["data"][0]) == verdict
    for score in OUTPUTS[:4]:
        data = [verdict[score]]
        assert outputs[score] == {"name": score, "datatype": "FP32", "shape": [1], "data": data}
    assert "server-timing" in answer.headers
    asked = {"inputs": inputs, "outputs": [{"name": "completeness"}, {"name": "relevance"}]}
    assert list(outputs_of(server.post(INFER, asked))) == ["completeness", "relevance"]


def test_an_undefined_score_is_minus_one(server: Asked, inputs: Inputs) -> None:
    inputs[2] = tensor("response", "")
    outputs = outputs_of(server.post(INFER, {"inputs": inputs}))
    assert [outputs[name]["data"] for name in ("faithfulness", "utilization")] == [[-1.0], [-1.0]]
    assert outputs["relevance"]["data"][0] > 0
    assert json.loads(outputs["verdict"]["data"][0])["faithfulness"] is None


def test_options_are_json_in_a_tensor(server: Asked, embedded: Evaluator, inputs: Inputs) -> None:
    options = {"id": "q7", "timeout_ms": 30_000, "allow_empty_contexts": True, "threshold": 0.9}
    asked = [*inputs, tensor("options_json", json.dumps(options))]
    outputs = outputs_of(server.post(INFER, {"inputs": asked}))
    assert json.loads(outputs["verdict"]["data"][0]) == expected(embedded, id="q7", threshold=0.9)
    asked[1] = {"name": "contexts", "shape": [0], "datatype": "BYTES", "data": []}
    assert outputs_of(server.post(INFER, {"inputs": asked}))["relevance"]["data"] == [-1.0]
    assert refusal(server.post(INFER, {"inputs": asked[:3]}))[:2] == (422, "empty_contexts")


def test_rows_may_have_a_batch_dimension_of_one(server: Asked, inputs: Inputs) -> None:
    flat = outputs_of(server.post(INFER, {"inputs": inputs}))
    batched = [{**each, "shape": [1, *each["shape"]], "data": [each["data"]]} for each in inputs]
    assert outputs_of(server.post(INFER, {"inputs": batched})) == flat
    assert outputs_of(server.post(INFER, {"inputs": inputs[::-1]})) == flat


def test_tensors_may_follow_the_json_in_both_directions(server: Asked, inputs: Inputs) -> None:
    plain = outputs_of(server.post(INFER, {"inputs": inputs}))
    head, behind = in_binary(inputs)
    head["parameters"] = {"binary_data_output": True}
    answer = post_binary(server, head, behind)
    assert answer.headers["content-type"] == "application/octet-stream"
    end = int(answer.headers[LENGTH])
    body, rest = json.loads(answer.content[:end]), answer.content[end:]
    for output in body["outputs"]:
        size = output["parameters"]["binary_data_size"]
        own, rest = rest[:size], rest[size:]
        assert "data" not in output
        if output["datatype"] == "FP32":
            value = plain[output["name"]]["data"][0]
            assert struct.unpack("<f", own)[0] == pytest.approx(value, abs=1e-7)
        else:
            assert int.from_bytes(own[:4], "little") == len(own) - 4
            assert own[4:].decode() == plain["verdict"]["data"][0]
    assert rest == b""
    head["outputs"] = [{"name": "relevance", "parameters": {"binary_data": False}}]
    assert list(outputs_of(post_binary(server, head, behind))) == ["relevance"]


def in_binary(inputs: Inputs) -> tuple[dict[str, Any], bytes]:
    """Return a request whose texts stand behind its JSON."""
    heads, behind = [], b""
    for each in inputs:
        texts = [text.encode() for text in each["data"]]
        own = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        head = {name: value for name, value in each.items() if name != "data"}
        heads.append({**head, "parameters": {"binary_data_size": len(own)}})
        behind += own
    return {"inputs": heads}, behind


def post_binary(server: Asked, head: dict[str, Any], behind: bytes) -> httpx2.Response:
    raw = json.dumps(head).encode()
    return server.post(INFER, raw + behind, {LENGTH: str(len(raw))})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "documents"}, "inputs[1].name: must be 'question', 'contexts', 'resp"),
        ({"name": "question"}, "input question is given twice"),
        ({"datatype": "FP32"}, "inputs[1].datatype: must be 'BYTES'"),
        ({"data": ["a", 5]}, "input contexts must hold only strings"),
        ({"data": None}, "input contexts has no data"),
        ({"data": ["a"]}, "input contexts has 1 texts, but its shape [2] holds 2"),
        ({"shape": [2, 1]}, "input contexts has the shape [2, 1], not [-1]: one example"),
        ({"shape": [-2]}, "inputs[1].shape[0]: must be at least 0"),
        ({"shape": [10**4000]}, "inputs[1].shape[0]: must be below 2147483648"),
        ({"shape": []}, "has 2 texts, but its shape [] holds 1"),
        ({"strides": [1]}, "inputs[1]: unknown: strides"),
        ({"parameters": {"binary_data_size": 4}}, "input contexts has both data and binary"),
    ],
)
def test_a_wrong_input_is_named(server: Asked, inputs: Inputs, change: Any, said: str) -> None:
    inputs[1] |= change
    status, error_type, message = refusal(server.post(INFER, {"inputs": inputs}))
    assert (status, error_type) == (422, "validation")
    assert said in message


def test_other_faults_are_named_too(server: Asked, inputs: Inputs) -> None:
    two, unknown = tensor("question", "When?", "Where?"), [{"name": "bleu"}]
    cases: list[tuple[Any, int, str]] = [
        ({"inputs": [two, *inputs[1:]]}, 422, "question has the shape [2], not [1]"),
        ({"inputs": [tensor("question"), *inputs[1:]]}, 422, "question has the shape [0], not [1]"),
        ({"inputs": inputs, "outputs": unknown}, 422, "outputs[0].name: must be"),
        (
            {"inputs": [*inputs, tensor("options_json", "[]")]},
            422,
            "options_json: body: must be an object",
        ),
        ({"inputs": [*inputs, tensor("options_json", '{"top": 1}')]}, 422, "unknown: top; known:"),
        ({"inputs": [*inputs, tensor("options_json", "{")]}, 400, "options_json: not valid JSON"),
        ({"inputs": inputs[:2]}, 422, "inputs: response must be given"),
    ]
    for body, status, said in cases:
        found = refusal(server.post(INFER, body))
        assert found[0] == status, found
        assert said in found[2]


@pytest.mark.parametrize(
    ("question", "error_type", "said"),
    [
        (b"\x01\x00\x00\x00\xff", "invalid_unicode", "input question is not UTF-8"),
        (b"\x01\x00\x00\x00\x00\x00", "validation", "a text is longer than its tensor"),
        (b"\xff\xff\xff\xffabc", "validation", "a text is longer than its tensor"),
        (b"\x00\x00", "validation", "a text is longer than its tensor"),
    ],
)
def test_broken_binary_is_refused(
    server: Asked, inputs: Inputs, question: bytes, error_type: str, said: str
) -> None:
    head, behind = in_binary(inputs)
    parameters = head["inputs"][0]["parameters"]
    rest = behind[parameters["binary_data_size"] :]
    parameters["binary_data_size"] = len(question)
    found = refusal(post_binary(server, head, question + rest))
    assert found[1] == error_type
    assert said in found[2]


def test_binary_of_another_size_is_refused(server: Asked, inputs: Inputs) -> None:
    head, behind = in_binary(inputs)
    for given, said in (
        (b"", "binary_data_size must be a number of bytes up to 0"),
        (behind + b"x", "1 bytes after the last input belong to no input"),
    ):
        found = refusal(post_binary(server, head, given))
        assert found[1] == "validation"
        assert said in found[2]


def test_the_length_of_the_json_must_be_one(server: Asked, inputs: Inputs) -> None:
    raw = json.dumps({"inputs": inputs}).encode()
    for length in ("-1", "x", "", "99999999", "1_0", "²", "9" * 5000):
        found = refusal(server.post(INFER, raw, {LENGTH: length.encode()}))  # type: ignore[dict-item]
        assert found[1] == "validation"
        assert "must be a number of bytes from 0 to" in found[2]
    assert refusal(server.post(INFER, raw, {LENGTH: "10"}))[1] == "invalid_json"


def test_the_server_and_the_model_describe_themselves(server: Asked) -> None:
    described = {"name": "trivet", "version": trivet.__version__}
    assert server.get("/v2").json() == {**described, "extensions": ["binary_tensor_data"]}
    model = server.get("/v2/models/trivet").json()
    shapes = {"question": [1], "contexts": [-1], "response": [1], "options_json": [1]}
    assert {each["name"]: each["shape"] for each in model["inputs"]} == shapes
    assert [each["name"] for each in model["outputs"]] == list(OUTPUTS)
    assert server.get("/v2/health/live").json() == {"live": True}
    assert server.get("/v2/health/ready").json() == {"ready": True}
    assert server.get("/v2/models/trivet/ready").json() == {"name": "trivet", "ready": True}
