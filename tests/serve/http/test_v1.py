"""``/v1``: answers over HTTP equal those of the evaluator."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.requests import Request

import trivet
from tests.serve.http.conftest import EXAMPLE, Asked, EvenBackend, Serve, refusal
from trivet.evaluation.evaluator import Evaluator
from trivet.logs.column_mapping import FIELD_NAMES
from trivet.records import Evaluation, RagExample
from trivet.serve.http.prometheus_metrics import Metrics
from trivet.serve.http.request_models import ExampleBody, RequestOptions
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.server_settings import ServerSettings


def verdict_of(embedded: Evaluator, **changes: Any) -> Any:
    """Return the evaluator's verdict on the changed example, as it looks after JSON."""
    return json.loads(embedded.evaluate(**EXAMPLE | changes).to_json())


def test_one_example_is_answered_with_its_verdict(server: Asked, embedded: Evaluator) -> None:
    answer = server.post("/v1/evaluate", {**EXAMPLE, "id": "q1"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == verdict_of(embedded, id="q1")


@pytest.mark.parametrize("threshold", [0, 0.999])
@pytest.mark.parametrize("many", [False, True])
def test_a_threshold_is_that_of_the_evaluator(
    server: Asked, embedded: Evaluator, threshold: float, many: bool
) -> None:
    body = {"examples": [EXAMPLE]} if many else EXAMPLE
    answer = server.post("/v1/evaluate", {**body, "threshold": threshold}).json()
    (verdict,) = answer["results"] if many else [answer]
    assert verdict == verdict_of(embedded, threshold=threshold)
    assert verdict["adherent"] is (threshold == 0)


@pytest.mark.parametrize("field", ["question", "contexts", "response"])
def test_fields_have_the_names_of_other_tools(server: Asked, field: str) -> None:
    expected = server.post("/v1/evaluate", EXAMPLE).json()
    assert len(FIELD_NAMES[field]) > 2
    for name in FIELD_NAMES[field]:
        renamed = {name if key == field else key: value for key, value in EXAMPLE.items()}
        assert server.post("/v1/evaluate", renamed).json() == expected


def test_contexts_may_be_objects_with_ids(server: Asked, embedded: Evaluator) -> None:
    texts = ["The bridge is old.", "It was built in 1884.", "The ferry is red."]
    objects = [{"text": texts[0], "id": "d1"}, texts[1], {"page_content": texts[2], "title": "F"}]
    answer = server.post("/v1/evaluate", {**EXAMPLE, "contexts": objects}).json()
    assert answer.pop("context_ids") == ["d1", None, "F"]
    assert answer == verdict_of(embedded, contexts=objects)
    names = [(context["id"], context["title"]) for context in answer["contexts"]]
    assert names == [("d1", None), (None, None), (None, "F")]


def test_the_answers_of_a_conversation_are_evaluated(server: Asked, embedded: Evaluator) -> None:
    messages = [
        {"role": "user", "content": "When was the bridge built?"},
        {"role": "assistant", "content": "In 1884."},
        {"role": "user", "content": "Of what?"},
        {"role": "tool", "name": "search", "content": "The bridge was built of iron in 1884."},
        {"role": "assistant", "content": "It is made of iron."},
    ]
    asked = {"messages": messages, "id": "c7", "threshold": 0.3}
    answer = server.post("/v1/evaluate", asked).json()
    assert answer.pop("context_ids") == ["search"]
    (last,) = embedded.evaluate_messages(messages, id="c7", threshold=0.3)
    assert isinstance(last, Evaluation)
    assert answer == json.loads(last.to_json())
    first, second = server.post("/v1/evaluate", {**asked, "turns": "all"}).json()["results"]
    assert (first["id"], first["error"]["code"]) == ("c7-messages[1]", "empty_contexts")
    assert second["id"] == "c7-messages[4]"
    assert second["faithfulness"] == pytest.approx(answer["faithfulness"], abs=1e-4)
    body = {**asked, "contexts": [{"text": "Iron.", "id": "d1"}]}
    assert server.post("/v1/evaluate", body).json()["context_ids"] == ["d1"]


def test_without_a_response_only_relevance_is_evaluated(server: Asked, embedded: Evaluator) -> None:
    verdict = verdict_of(embedded, response="")
    assert server.post("/v1/evaluate", {**EXAMPLE, "response": ""}).json() == verdict
    asked = {"query": EXAMPLE["question"], "documents": EXAMPLE["contexts"], "id": "r1"}
    answer = server.post("/v1/relevance", asked).json()
    assert answer["id"] == "r1"
    assert answer["relevance"] == verdict["relevance"]
    for mine, full in zip(answer["contexts"], verdict["contexts"], strict=True):
        assert mine["relevance"] == full["relevance"]
        assert [s["relevance"] for s in mine["sentences"]] == [
            s["relevance"] for s in full["sentences"]
        ]
    assert "utilization" not in json.dumps(answer)


def test_each_of_several_examples_fails_alone(server: Asked, embedded: Evaluator) -> None:
    examples = [
        {**EXAMPLE, "id": "a"},
        {**EXAMPLE, "contexts": [" "], "id": "b"},
        {**EXAMPLE, "contexts": ["x"] * (server.settings.max_contexts + 1), "id": "c"},
        EXAMPLE,
    ]
    answer = server.post("/v1/evaluate", {"examples": examples})
    assert answer.status_code == 200
    first, blank, long, last = answer.json()["results"]
    alone = verdict_of(embedded, id="a")
    assert first["id"] == "a"
    assert first["faithfulness"] == pytest.approx(alone["faithfulness"], abs=1e-4)
    assert (blank["id"], blank["error"]["code"]) == ("b", "empty_contexts")
    assert (long["id"], long["error"]["code"]) == ("c", "too_long")
    assert "contexts: 257 are more than max_contexts (256)" in long["error"]["message"]
    assert last["id"] is None
    assert last["windows"] == 1
    assert server.post("/v1/evaluate", {"examples": []}).json() == {"results": []}


def test_empty_contexts_may_be_allowed(server: Asked, embedded: Evaluator) -> None:
    nothing = {**EXAMPLE, "contexts": []}
    allowed = server.post("/v1/evaluate", {**nothing, "allow_empty_contexts": True})
    assert allowed.json() == verdict_of(embedded, contexts=[], allow_empty_contexts=True)


def test_a_large_request_is_parsed_in_a_thread(serve: Serve) -> None:
    server = serve(backend=EvenBackend())
    passage = "A ferry, red as it was, left at one, at two, at six, at ten. "
    ferries = [passage.replace("ferry", f"ferry{number}") * 100 for number in range(12)]
    large = {**EXAMPLE, "contexts": ferries}
    assert len(json.dumps(large)) > 65_536
    answer = server.post("/v1/evaluate", large).json()
    assert answer["windows"] > 32
    assert [len(context["sentences"]) for context in answer["contexts"]] == [100] * 12
    assert 0 < answer["faithfulness"] < 1


def test_server_timing_lists_the_stages(server: Asked) -> None:
    started = time.monotonic()
    timing = server.post("/v1/evaluate", EXAMPLE).headers["server-timing"]
    whole = 1000 * (time.monotonic() - started)
    stages = dict(part.split(";dur=") for part in timing.split(", "))
    assert list(stages) == ["tokenize", "queue", "infer", "finish"]
    assert all(float(milliseconds) >= 0 for milliseconds in stages.values())
    assert sum(map(float, stages.values())) <= whole + 0.1  # each is rounded
    assert float(stages["infer"]) > 0


def test_info_describes_model_backend_and_limits(server: Asked, embedded: Evaluator) -> None:
    info, bundle = server.get("/v1/info").json(), embedded.bundle.info
    assert info["version"] == trivet.__version__
    assert info["bundle"]["name"] == bundle.name
    assert info["bundle"]["window"]["size"] == bundle.window.size
    assert bundle.thresholds is not None
    assert info["bundle"]["thresholds"] == dataclasses.asdict(bundle.thresholds)
    assert info["bundle"]["calibration"]["split"] == bundle.calibration.split
    assert info["backend"] == {"name": embedded.backend_name, "precision": embedded.precision}
    limits = info["limits"]
    assert limits["default_timeout_ms"] == server.settings.max_timeout_ms
    assert all(getattr(server.settings, name) in (limits[name], None) for name in limits)


def test_limits_are_those_of_the_settings(serve: Serve) -> None:
    settings = ServerSettings(
        max_contexts=2, max_characters=80, max_examples=2, max_body_bytes=1000, max_timeout_ms=500
    )
    server = serve(settings, evaluator=Evaluator(threads=1, max_characters=80))
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({**EXAMPLE, "contexts": ["a"] * 3}, "too_long", "contexts: 3 are more than"),
        ({**EXAMPLE, "contexts": ["a", "b" * 81]}, "too_long", "contexts[1] has 81 characters"),
        ({**EXAMPLE, "response": "b" * 81}, "too_long", "response has 81 characters, more"),
        ({"examples": [EXAMPLE] * 3}, "too_long", "examples: 3 are more than max_examples (2)"),
        ({**EXAMPLE, "timeout_ms": 501}, "validation", "timeout_ms: 501 is more than"),
        ({**EXAMPLE, "response": "b" * 1000}, "too_large", "more than max_body_bytes=1000"),
    ]
    for body, error_type, phrase in cases:
        refused = refusal(server.post("/v1/evaluate", body))
        assert refused[:2] == (413 if error_type == "too_large" else 422, error_type), refused
        assert phrase in refused[2]
    assert server.post("/v1/evaluate", {**EXAMPLE, "timeout_ms": 500}).status_code == 200
    assert server.metric('trivet_failed_examples_total{code="too_long"}') == 3


def test_too_many_examples_are_not_built(server: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExampleBody, "example", lambda body: pytest.fail("one was made"))
    body = {"examples": [EXAMPLE] * 65}
    assert refusal(server.post("/v1/evaluate", body))[:2] == (422, "too_long")


def test_too_many_contexts_are_refused_unread(server: Asked) -> None:
    class Unread(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("half a million contexts would hold up the event loop")

    service = RequestService(server.batcher, Metrics(), ServerSettings(max_contexts=2))
    many = RagExample("q", Unread(("a",) * 3), "r")
    request = Request({"type": "http"})
    (failed,) = server.run(service.evaluate(request, [many], RequestOptions())).results
    assert (failed.code, "contexts: 3 are more" in failed.message) == ("too_long", True)
