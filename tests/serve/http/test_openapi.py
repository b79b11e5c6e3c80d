"""The OpenAPI document and the page: complete, correct, without external resources."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from tests.report.rows import Page
from tests.serve.http.conftest import Asked, Serve
from trivet.serve.http.errors import STATUSES
from trivet.serve.http.openapi import ROUTES, RouteFacts, openapi
from trivet.serve.http.pages import docs_page
from trivet.serve.http.settings import ServerSettings

WITH_BODIES = [route for route in ROUTES if route.body and not isinstance(route.answer, str)]
JSON = "application/json"
jsonschema: Any = pytest.importorskip("jsonschema")


def fits(schema: Any, value: Any, document: Any) -> bool:
    """Return whether a value is what a schema of the document says."""
    whole = {"components": document["components"], **schema}
    return bool(jsonschema.Draft202012Validator(whole).is_valid(value))


@pytest.fixture(scope="module")
def document(server: Asked) -> Any:
    answer = server.get("/openapi.json")
    assert answer.headers["content-type"] == JSON
    return answer.json()


def test_every_route_is_described_and_no_other(server: Asked, document: Any) -> None:
    served = {
        (method, route.path)
        for route in server.app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert {(route.method, route.path) for route in ROUTES} == served
    described = {(m.upper(), path) for path, item in document["paths"].items() for m in item}
    assert described == served
    assert document["openapi"] == "3.1.0"


def test_every_reference_resolves(document: Any) -> None:
    names = set(document["components"]["schemas"])
    text = json.dumps(document)
    for found in text.split('"$ref": "')[1:]:
        assert found.partition('"')[0].removeprefix("#/components/schemas/") in names
    assert "$defs" not in text


@pytest.mark.parametrize("route", WITH_BODIES, ids=lambda route: route.path)
def test_examples_fit_the_schema(server: Asked, document: Any, route: RouteFacts) -> None:
    operation = document["paths"][route.path]["post"]
    asked = operation["requestBody"]["content"][JSON]
    told = operation["responses"]["200"]["content"][JSON]
    assert asked["examples"].keys() == told["examples"].keys()
    for name, shown in asked["examples"].items():
        answer = server.post(route.path, shown["value"])
        assert answer.status_code == 200, answer.text
        assert fits(told["schema"], answer.json(), document)
        assert fits(told["schema"], told["examples"][name]["value"], document)
        assert shape(answer.json()) == shape(told["examples"][name]["value"])


def shape(value: Any) -> Any:
    """Return the keys of a value without its numbers and texts."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]] if value and isinstance(value[0], dict) else []
    return None


@pytest.mark.parametrize("path", ["/v1/info", "/health/ready"])
def test_get_routes_answer_as_the_schema_says(server: Asked, document: Any, path: str) -> None:
    schema = document["paths"][path]["get"]["responses"]["200"]["content"][JSON]["schema"]
    answer = server.get(path).json()
    assert fits(schema, answer, document)
    assert not fits(schema, {**answer, "other": 1}, document)
    assert not fits(schema, [], document)


def test_every_refusal_is_described_with_its_status(document: Any) -> None:
    for route in ROUTES:
        responses = document["paths"][route.path][route.method.lower()]["responses"]
        assert {str(STATUSES[name]) for name in route.refusals} == set(responses) - {"200"}
        for status, response in responses.items():
            if status != "200":
                example = response["content"][JSON]["examples"]["error"]["value"]
                assert fits(response["content"][JSON]["schema"], example, document)


def test_limits_and_keys_are_those_of_the_settings(tmp_path: Path) -> None:
    plain = openapi(ServerSettings())
    assert "security" not in plain
    settings = ServerSettings(max_contexts=7, max_examples=3, keys_file=tmp_path / "keys")
    document = openapi(settings)
    parts = document["components"]["schemas"]
    assert parts["EvaluateOne"]["properties"]["contexts"]["maxItems"] == 7
    assert parts["RelevanceBody"]["properties"]["contexts"]["maxItems"] == 7
    assert parts["EvaluateMany"]["properties"]["examples"]["maxItems"] == 3
    assert document["security"] == [{"key": []}]
    assert document["paths"]["/health/live"]["get"]["security"] == []
    assert "security" not in document["paths"]["/metrics"]["get"]


def test_fields_are_explained(document: Any) -> None:
    parts = document["components"]["schemas"]
    for name in ("EvaluateOne", "EvaluateMany", "RelevanceBody", "Verdict"):
        for field, about in parts[name]["properties"].items():
            assert about.get("description"), f"{name}.{field}"
    assert "Attributes" not in json.dumps(parts)


def commands_of(page: str) -> list[str]:
    return [text for text in Page(page).texts["pre"] if "curl" in text]


def test_the_page_loads_nothing_and_runs_nothing(server: Asked) -> None:
    answer = server.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "script" not in policy
    found = Page(answer.text)
    assert not {"script", "link", "img", "iframe", "form"} & {tag for tag, _ in found.tags}
    for _, attributes in found.tags:
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        assert attributes.get("href", "#").startswith("#")
    metas = [a for tag, a in found.tags if tag == "meta" and "http-equiv" in a]
    assert metas[0]["content"] == policy


def test_the_page_shows_every_route_field_and_type(server: Asked, document: Any) -> None:
    page = server.get("/docs").text
    found = Page(page)
    titles = "".join(found.texts["code"])
    cells = set(found.texts["td"])
    for route in ROUTES:
        assert f"{route.method} {route.path}" in titles
        assert set(route.refusals) <= cells
    for name, part in document["components"]["schemas"].items():
        assert name in page
        for field in part.get("properties", {}):
            assert {field, f"{field} (optional)"} & cells
    anchors = {attributes["id"] for tag, attributes in found.tags if tag == "section"}
    links = {a["href"].removeprefix("#") for tag, a in found.tags if tag == "a"}
    assert links <= anchors


def test_the_commands_of_the_page_work(server: Asked) -> None:
    commands = commands_of(server.get("/docs").text)
    assert len(commands) == sum(max(1, len(route.requests)) for route in ROUTES)
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "curl"
        path = words[1].removeprefix("http://127.0.0.1:8080")
        answer = server.post(path, words[3].encode()) if "-d" in words else server.get(path)
        assert answer.status_code == 200, command


def test_a_server_with_keys_shows_where_they_go(serve: Serve) -> None:
    server = serve(ServerSettings(host="::1", port=9000), key_file="first-key\n")
    page = server.get("/docs", {"Authorization": "Bearer first-key"})
    commands = commands_of(page.text)
    assert 'curl -H "Authorization: Bearer $TRIVET_KEY" http://[::1]:9000/v1/info' in commands
    assert "curl http://[::1]:9000/health/live" in commands
    assert "first-key" not in page.text


def test_the_page_escapes_its_content() -> None:
    settings = ServerSettings()
    document = openapi(settings)
    document["components"]["schemas"]["<script>alert(1)</script>"] = {
        "properties": {"<img src=x>": {"type": "string", "description": "<b onclick=x>"}}
    }
    page = docs_page(document, settings)
    assert "<script>alert" not in page
    assert "&lt;img src=x&gt;" in page
    assert "&lt;b onclick=x&gt;" in page
