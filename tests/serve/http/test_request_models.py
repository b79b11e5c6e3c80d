"""Reading of requests: strict, refused by field name, without repeating the request's texts."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from trivet.logs.context_values import CONTEXT_ID_NAMES, CONTEXT_TEXT_NAMES
from trivet.serve.http.request_errors import RequestError
from trivet.serve.http.request_models import (
    EvaluateBody,
    EvaluateMany,
    EvaluateOne,
    RelevanceBody,
    context_ids,
    parser,
)

GOOD = {"question": "When?", "contexts": ["In 1884."], "response": "In 1884."}


def test_one_string_is_one_passage() -> None:
    asked = parser(EvaluateBody)(json.dumps({**GOOD, "contexts": "In 1884."}).encode())
    assert asked.example() == parser(EvaluateBody)(json.dumps(GOOD).encode()).example()


def refused(raw: bytes, body: Any = EvaluateBody) -> tuple[str, str]:
    with pytest.raises(RequestError) as caught:
        parser(body)(raw)
    assert len(caught.value.message) < 1000
    return caught.value.error_type, caught.value.message


def test_one_and_many_are_distinguished() -> None:
    body = parser(EvaluateBody)(json.dumps({**GOOD, "timeout_ms": 5, "id": "q"}).encode())
    assert isinstance(body, EvaluateOne)
    assert (body.timeout_ms, body.id, body.allow_empty_contexts) == (5.0, "q", False)
    many = parser(EvaluateBody)(json.dumps({"examples": [GOOD, {**GOOD, "id": "r"}]}).encode())
    assert isinstance(many, EvaluateMany)
    assert [example.example().id for example in many.examples] == [None, "r"]
    assert many.examples[0].example().contexts == ("In 1884.",)


@pytest.mark.parametrize(
    ("raw", "error_type", "phrase"),
    [
        (b"", "invalid_json", "EOF while parsing"),
        (b"\xef\xbb\xbf{}", "invalid_json", "expected value"),
        (b"[" * 100_000, "invalid_json", "recursion limit exceeded"),
        (b'{"timeout_ms": ' + b"9" * 5000 + b"}", "invalid_json", "number out of range"),
        (b'{"question": "\\ud800"}', "invalid_unicode", "hex escape"),
        (b'{"question": "\xff"}', "invalid_unicode", "unicode"),
        (b"[]", "validation", "body: must be an object"),
        (b"{}", "validation", "question: missing; contexts: missing; response"),
    ],
)
def test_other_than_a_json_object_is_refused(raw: bytes, error_type: str, phrase: str) -> None:
    kind, message = refused(raw)
    assert kind == error_type
    assert phrase in message


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"question": 5}, "question: must be a string"),
        ({"contexts": 7}, "contexts: must be a list"),
        ({"contexts": ["a", 5, 6]}, "contexts[1]: must be a string, or an object with its text"),
        ({"contexts": [{"title": "a"}]}, "contexts[0].text: missing"),
        ({"contexts": [{"text": "a", "score": 1}]}, "contexts[0]: unknown: score; known: text, "),
        ({"contexts": [{"text": "a", "content": "b"}]}, "text and content mean the same"),
        ({"query": "When?"}, "body: question and query mean the same; keep one"),
        ({"temperature": 1, "model": "m"}, "body: unknown: temperature, model; known: question"),
        ({"timeout_ms": float("nan")}, "timeout_ms: must be a finite number"),
        ({"timeout_ms": 0}, "timeout_ms: must be above 0"),
        ({"timeout_ms": True}, "timeout_ms: must be a number"),
        ({"threshold": 1.5}, "threshold must be in [0, 1], got 1.5"),
        ({"allow_empty_contexts": 1}, "allow_empty_contexts: must be true or false"),
        ({"id": "x" * 1001}, "id: String should have at most 1000 characters"),
        ({"examples": [GOOD]}, "body: unknown: question, contexts, response; known: examples"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], phrase: str) -> None:
    error_type, message = refused(json.dumps({**GOOD, **change}).encode())
    assert error_type == "validation"
    assert phrase in message


def test_a_wrong_example_is_named_by_its_number() -> None:
    message = refused(json.dumps({"examples": [GOOD, {**GOOD, "response": None}]}).encode())[1]
    assert message == "examples[1].response: must be a string"


def test_every_name_of_a_context_is_read() -> None:
    for name in CONTEXT_TEXT_NAMES:
        for called in CONTEXT_ID_NAMES:
            row = {**GOOD, "contexts": [{name: "The mill.", called: "d7"}, "The ferry."]}
            body = parser(EvaluateBody)(json.dumps(row).encode())
            assert isinstance(body, EvaluateOne)
            assert body.example().contexts == ("The mill.", "The ferry.")
            assert context_ids(body.example()) == ["d7", None]
    assert context_ids(parser(EvaluateBody)(json.dumps(GOOD).encode()).example()) is None


def test_other_bodies_have_their_own_fields() -> None:
    assert parser(RelevanceBody)(b'{"query": "a", "documents": ["b"]}').question == "a"
    assert "unknown: response" in refused(json.dumps(GOOD).encode(), RelevanceBody)[1]


@pytest.mark.parametrize(
    "raw",
    [
        b"{" + b",".join(b'"key%d":1' % number for number in range(150_000)) + b"}",
        b'{"contexts":[' + b",".join([b"1"] * 900_000) + b"]}",
        b'{"examples":[' + b",".join([b"1"] * 900_000) + b"]}",
        b'{"examples":[' + b",".join([b"{}"] * 600_000) + b"]}",
    ],
    ids=["keys", "contexts", "examples", "objects"],
)
def test_a_million_faults_cost_little_more_than_the_body(raw: bytes) -> None:
    tracemalloc.start()
    try:
        refused(raw)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 60_000_000


def test_messages_do_not_repeat_long_input() -> None:
    text = "secret " * 200
    for change in ({text: 1}, {"contexts": [{text: 1}]}, {"id": text}, {"response": [text]}):
        message = refused(json.dumps({**GOOD, **change}).encode())[1]
        assert message.count("secret") <= 6
