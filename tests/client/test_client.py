"""Both clients give what an evaluator gives: verdicts, errors, streams in order."""

from __future__ import annotations

import dataclasses
import json
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

import trivet
from tests.client.conftest import EXAMPLES, ScriptedServer, call, error
from trivet.errors import BackendError, ExampleError, ServerError, WindowError
from trivet.records import Evaluation, FailedEvaluation, RagExample


def test_lone_surrogates_are_replaced(client: Any, embedded: trivet.Evaluator) -> None:
    texts = ("Where\udfff?", ["Built \ud800in 1817.", "Mill."], "In\ud800 1817.")
    got, expected = client.evaluate(*texts), embedded.evaluate(*texts)
    assert got.faithfulness == expected.faithfulness
    assert [(s.start, s.end) for s in got.sentences] == [
        (s.start, s.end) for s in expected.sentences
    ]
    (many,) = client.evaluate_many([RagExample(texts[0], tuple(texts[1]), texts[2])])
    assert many == got


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (("Where?", b"Here.", "There."), "invalid_row"),
        (("Where?", [b"Here."], "There."), "invalid_row"),
        (("Where?", ["Here."], None), "invalid_row"),
        (("Where?", [], "There."), "empty_contexts"),
    ],
    ids=["only-bytes", "bytes", "none", "no-contexts"],
)
def test_an_example_is_refused_as_the_evaluator_refuses_it(
    client: Any, embedded: trivet.Evaluator, texts: Any, code: str
) -> None:
    for judge in (client, embedded):
        with pytest.raises(ExampleError) as caught:
            judge.evaluate(*texts)
        assert caught.value.code == code


def test_own_sentences_are_not_sent(client: Any, server: ScriptedServer) -> None:
    presplit = RagExample("Where?", ("Here.",), "There.", "x", response_sentences=())
    (result,) = client.evaluate_many([presplit])
    assert (result.id, result.code) == ("x", "own_sentences")
    assert server.requests == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (error(422, "too_long"), ExampleError),
        (httpx2.Response(413, text="<html>too large</html>"), ExampleError),
        (error(422, "window"), WindowError),
        (error(500, "backend_failed"), BackendError),
        (error(500, "non_finite"), BackendError),
        (error(500, "internal"), ServerError),
        (error(401, "unauthorized"), ServerError),
        (error(504, "deadline"), ServerError),
        (httpx2.Response(422, text="<html>proxy</html>"), ServerError),
        (httpx2.Response(302, headers={"location": "http://192.0.2.1/"}), ServerError),
        (httpx2.Response(200, text="<html>hello</html>"), ServerError),
        (httpx2.Response(200, json={}), ServerError),
        (httpx2.Response(200, json={"faithfulness": 7}), ServerError),
    ],
)
def test_an_answer_without_a_verdict_becomes_an_error(
    client: Any, server: ScriptedServer, answer: httpx2.Response, expected: type[Exception]
) -> None:
    server.script.append(answer)
    with pytest.raises(expected) as caught:
        client.evaluate(**call(EXAMPLES[0]))
    assert type(caught.value) is expected
    assert len(server.requests) == 1, "such an answer is permanent"
    error_type = answer.json()["error_type"] if "error_type" in answer.text else None
    if isinstance(caught.value, ExampleError | BackendError):
        assert caught.value.code == ("too_large" if answer.status_code == 413 else error_type)
    if isinstance(caught.value, ServerError):
        assert caught.value.status == answer.status_code
        assert caught.value.error_type == (error_type or "invalid_answer")
        assert caught.value.request_id == ("r-1" if error_type else None)


@pytest.mark.parametrize("many", [False, True])
def test_a_closed_client_ends_its_pauses(
    server: ScriptedServer, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = trivet.Client(server.url)
    server.script.append(error(429, "overloaded", retry_after="0" if many else "15"))

    def close_before_the_pause(low: float, high: float) -> float:
        client.close()
        return 0.0

    monkeypatch.setattr("random.uniform", close_before_the_pause)
    with pytest.raises(ServerError, match="scripted overloaded"):
        list(client.evaluate_many(EXAMPLES)) if many else client.evaluate(**call(EXAMPLES[0]))
    assert len(server.requests) == 1


def test_the_path_and_a_hidden_key_are_sent(kind: Any, server: ScriptedServer) -> None:
    with kind(f"{server.url}/judge/", key="s3cret") as client:
        client.info()
        assert "s3cret" not in repr(client)
    (request,) = server.requests
    assert request.url.path == "/judge/v1/info"
    assert request.headers["authorization"] == "Bearer s3cret"


def test_results_of_a_stream_are_in_order_and_failures_stay_in_place(
    kind: Any, server: ScriptedServer, embedded: trivet.Evaluator
) -> None:
    before = FailedEvaluation("row-9", "malformed_line", "line 9")
    empty = RagExample("Where?", (), "There.", "e")
    rows: list[RagExample | FailedEvaluation] = [EXAMPLES[0], before, empty, *EXAMPLES[1:], before]
    expected = [embedded.evaluate(**call(example)) for example in EXAMPLES]
    for size in (1, 2, 64):
        with kind(server.url, connections=2, examples_per_request=size) as client:
            got = list(client.evaluate_many(rows))
        assert [result for result in got if isinstance(result, Evaluation)] == expected
        assert got[1] == got[5] == before
        assert isinstance(got[2], FailedEvaluation)
        assert (got[2].id, got[2].code) == ("e", "empty_contexts")
    assert max(len(json.loads(request.content)["examples"]) for request in server.requests) == 4


def test_the_examples_of_a_refused_request_are_sent_alone(
    client: Any, server: ScriptedServer
) -> None:
    many = RagExample("Where?", ("Here.",) * 300, "There.", "many")
    results = list(client.evaluate_many([*EXAMPLES, many, *EXAMPLES]))
    kinds = [type(result) for result in results]
    assert kinds == [Evaluation] * 3 + [FailedEvaluation] + [Evaluation] * 3
    assert (results[3].id, getattr(results[3], "code", None)) == ("many", "validation")
    sizes = [len(json.loads(request.content)["examples"]) for request in server.requests]
    assert sizes == [7] + [1] * 7


def test_a_backend_failure_fails_its_whole_request(client: Any, server: ScriptedServer) -> None:
    server.script.append(error(500, "backend_failed"))
    results = list(client.evaluate_many(EXAMPLES))
    assert [getattr(result, "code", None) for result in results] == ["backend_failed"] * 3
    assert [result.id for result in results] == ["a", None, "c"]


def test_concurrent_requests_read_no_more_than_they_hold(kind: Any, server: ScriptedServer) -> None:
    both, read = threading.Barrier(2, timeout=20), []

    def wait_for_the_other(request: httpx2.Request) -> None:
        if len(server.requests) <= 2:
            both.wait()

    def stream() -> Iterator[RagExample]:
        for number in range(40):
            read.append(number)
            yield EXAMPLES[0]

    server.on_request = wait_for_the_other
    with kind(server.url, connections=2, examples_per_request=2) as client:
        results = client.evaluate_many(stream())
        assert read == []
        next(results)
        assert not both.broken
        assert len(read) == 4
        results.close()
    assert len(read) == 4


def test_requests_before_a_broken_stream_are_answered(client: Any) -> None:
    def stream() -> Iterator[RagExample]:
        yield from EXAMPLES * 6
        raise OSError("the disk is gone")

    results = client.evaluate_many(stream())
    got = [next(results) for _ in range(16)]
    assert all(isinstance(result, Evaluation) for result in got)
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)


@pytest.mark.parametrize("kind", [trivet.Client, trivet.AsyncClient])
def test_a_client_is_pickled_by_its_arguments(kind: Any) -> None:
    client = kind("http://server", "s3cret", connections=3)
    copy = pickle.loads(pickle.dumps(client))
    assert dataclasses.asdict(copy) == dataclasses.asdict(client)
    assert copy is not client


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"url": "server:8080"}, "url"),
        ({"url": "http://me:secret@server"}, "url"),
        ({"url": "http://server?key=x"}, "url"),
        ({"key": "two words"}, "key"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"retries": -1}, "retries"),
        ({"connections": 0}, "connections"),
        ({"examples_per_request": 65}, "examples_per_request"),
    ],
)
def test_a_wrong_argument_is_named(kind: Any, arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must") as refused:
        kind(**({"url": "http://server"} | arguments))
    assert "secret" not in str(refused.value)
