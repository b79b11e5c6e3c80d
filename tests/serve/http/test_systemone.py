"""``POST /v1/systemone`` answers what a verdict says, and refuses every other question."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from tests.serve.http.conftest import Asked, Serve
from tests.serve.http.test_any_request import bodies, values
from tests.serve.http.test_openapi import fits, schema_of
from trivet.evaluation.evaluator import Evaluator

PATH = "/v1/systemone"
STATE: dict[str, Any] = {
    "question": "When was the mill built?",
    "contexts": ["The mill was built in 1817. It is made of stone."],
    "response": "It was built in 1871.",
}


def ask(server: Asked, instructions: Any, state: Any = STATE, **more: Any) -> Any:
    """Return the probability of yes, or the message of the refusal."""
    question = {"type": "noul", "instructions": instructions, **more}
    answer = server.post(PATH, {"model": "x", "state": state, "questions": {"q 1": question}})
    body = answer.json()
    if answer.status_code == 200:
        return body["answers"]["q 1"]["noul"]
    assert answer.status_code == 422
    assert body["detail"] == [{"loc": ["body"], "msg": body["error"], "type": "validation"}]
    return body["error"]


@pytest.mark.parametrize(
    ("instructions", "criteria", "field", "holds"),
    [
        ("Groundedness", None, "faithfulness", True),
        ("Is the `response` fully supported by the contexts?", {}, "faithfulness", True),
        ("The answer is not grounded in the documents.", None, "faithfulness", False),
        (None, {"true": "It contains", "false": "grounded"}, "", True),
        (None, {"true": "hallucinated", "false": "grounded"}, "faithfulness", False),
        ({"task": "support", "of": ["faithful"]}, None, "faithfulness", True),
        ("Is the context relevant to the query?", {"false": "irrelevance"}, "relevance", True),
        ("abstention", None, "abstains", True),
        (None, None, "", True),
        ("Is the context supported by the answer?", None, "", True),
        ("Is there no hallucination?", None, "", True),
        ("groundedness", {"true": "hallucinated"}, "", True),
        ("groundedness", {"false": "grounded"}, "", True),
        (["groundedness", "relevance"], None, "", True),
        ({"task": "groundedness", "weight": 2}, None, "", True),
    ],
)
def test_a_question_names_one_field_or_is_refused(
    server: Asked, embedded: Evaluator, instructions: Any, criteria: Any, field: str, holds: bool
) -> None:
    reply = ask(server, instructions, criteria=criteria)
    if not field:
        assert "name one of groundedness" in reply
        return
    value = float(getattr(embedded.evaluate(**STATE), field))
    assert reply == pytest.approx(value if holds else 1 - value, abs=1e-4)


def test_other_types_and_open_values_are_refused(server: Asked) -> None:
    assert "questions.q 1.type: must be 'noul'" in ask(server, "support", type="choice")
    empty = {**STATE, "response": ""}
    assert "no faithfulness here" in ask(server, "hallucination", empty)
    assert isinstance(ask(server, "relevance", empty), float)
    many = {"state": STATE, "questions": dict.fromkeys(map(str, range(101)))}
    assert server.post(PATH, many).json()["error"] == "questions: must be 1 to 100 questions"


def test_a_state_is_one_answer_in_any_shape(server: Asked) -> None:
    names = ("input", "retrieval_context", "actual_output")
    case = dict(zip(names, STATE.values(), strict=True))
    texts = zip(("user", "tool", "assistant"), STATE.values(), strict=True)
    talk = [{"role": role, "content": "".join(text)} for role, text in texts]
    alike: list[Any] = [{"test_case": case}, talk, {"messages": talk}, json.dumps(STATE)]
    assert {ask(server, "support", state) for state in alike} == {ask(server, "support")}
    others: list[Any] = ["It was built in 1871.", None, [], {"examples": [STATE] * 2}]
    assert all(isinstance(ask(server, "support", state), str) for state in others)


@settings(max_examples=100)
@given(values, values | bodies)
def test_any_body_is_refused_in_the_form_of_the_interface(
    server: Asked, question: Any, state: Any
) -> None:
    raw = json.dumps({"state": state, "questions": {"q": question}}).encode()
    assert server.post(PATH, raw).json()["detail"][0]["loc"] == ["body"]


def test_it_is_described_and_says_when_a_key_is_missing(server: Asked, serve: Serve) -> None:
    document = server.get("/openapi.json").json()
    body = {"state": STATE, "questions": {"q": {"type": "noul", "instructions": "support"}}}
    assert fits(schema_of(document, PATH), server.post(PATH, {**body, "x": 1}).json(), document)
    assert fits(schema_of(document, PATH, "422"), server.post(PATH, b"{").json(), document)
    closed = serve(key_file="key\n").post(PATH, body).json()
    assert closed["detail"]["error_type"] == "authentication_error"
