"""The OpenAPI document that FastAPI makes: complete, and what the routes do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.serve.http.conftest import EXAMPLE, Asked, Serve

JSON = "application/json"
jsonschema: Any = pytest.importorskip("jsonschema")
TURNS = [{"role": "user", "content": "When?"}, {"role": "assistant", "content": "In 1884."}]
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/evaluate", EXAMPLE),
    ("/v1/evaluate", {"examples": [EXAMPLE, {**EXAMPLE, "contexts": []}]}),
    ("/v1/evaluate", {"messages": TURNS, "contexts": EXAMPLE["contexts"]}),
    ("/v1/relevance", {"question": "When?", "contexts": [{"id": "d1", "text": "It is old."}]}),
    ("/classify", {"inputs": "In 1994.", "parameters": {"context": ["It was built in 1884."]}}),
]


@pytest.fixture(scope="module")
def document(server: Asked) -> Any:
    answer = server.get("/openapi.json")
    assert answer.headers["content-type"] == JSON
    return answer.json()


def fits(schema: Any, value: Any, document: Any) -> bool:
    """Return whether a value is what a schema of the document says."""
    whole = {"components": document["components"], **schema}
    return bool(jsonschema.Draft202012Validator(whole).is_valid(value))


def schema_of(document: Any, path: str, status: str = "200", method: str = "post") -> Any:
    return document["paths"][path][method]["responses"][status]["content"][JSON]["schema"]


def test_every_route_but_the_pages_is_described(server: Asked, document: Any) -> None:
    described = {(method, path) for path, item in document["paths"].items() for method in item}
    assert described == {
        *(("post", f"/v1/{name}") for name in ("evaluate", "relevance", "stream", "systemone")),
        ("post", "/classify"),
        *(("get", path) for path in ("/v1/info", "/health/live", "/health/ready", "/metrics")),
    }
    assert "swagger-ui" in server.get("/docs").text
    assert "$defs" not in json.dumps(document)


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_requests_and_answers_are_what_the_schemas_say(
    server: Asked, document: Any, path: str, body: dict[str, Any]
) -> None:
    asked = document["paths"][path]["post"]["requestBody"]["content"][JSON]["schema"]
    assert fits(asked, body, document)
    assert not fits(asked, {**body, "other": 1}, document)
    answer = server.post(path, body)
    assert answer.status_code == 200
    assert fits(schema_of(document, path), answer.json(), document)
    refused = server.post(path, {**body, "other": 1})
    assert fits(schema_of(document, path, str(refused.status_code)), refused.json(), document)


def test_the_example_of_the_page_is_answered(server: Asked, document: Any) -> None:
    example = document["components"]["schemas"]["EvaluateOne"]["example"]
    assert server.post("/v1/evaluate", example).status_code == 200


@pytest.mark.parametrize("path", ["/v1/info", "/health/ready"])
def test_get_routes_answer_as_the_schema_says(server: Asked, document: Any, path: str) -> None:
    schema, answer = schema_of(document, path, method="get"), server.get(path).json()
    assert fits(schema, answer, document)
    assert not fits(schema, {**answer, "other": 1}, document)
    assert server.run(server.client.head(path)).status_code == 200


def test_a_server_with_keys_says_which_routes_need_one(serve: Serve, document: Any) -> None:
    keyed = serve(key_file="first\n").get("/openapi.json", {"Authorization": "Bearer first"}).json()
    needs_key = {path for path, item in keyed["paths"].items() if "security" in str(item)}
    assert needs_key == keyed["paths"].keys() - {"/health/live", "/health/ready"}
    assert "security" not in str(document["paths"])


def test_fields_of_requests_are_explained(document: Any) -> None:
    parts = document["components"]["schemas"]
    for name in ("EvaluateOne", "EvaluateMany", "RelevanceBody", "StreamBody", "RelevanceAnswer"):
        for field, about in parts[name]["properties"].items():
            assert about.get("description"), f"{name}.{field}"
