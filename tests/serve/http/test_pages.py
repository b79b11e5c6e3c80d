"""``/try`` and its verdicts: marked and escaped texts, refusals, nothing kept."""

from __future__ import annotations

import pytest

import trivet
from tests.report.rows import PAYLOADS, Page
from tests.serve.http.conftest import EXAMPLE, Asked, Serve, refusal


def test_the_root_says_what_the_server_is_and_its_links_lead_somewhere(server: Asked) -> None:
    answer = server.get("/")
    assert answer.status_code == 200 and "judges answers" in answer.text
    assert trivet.__version__ in answer.text and "API key" not in answer.text
    links = [attributes["href"] for tag, attributes in Page(answer.text).tags if tag == "a"]
    assert {"try", "docs"} < set(links)
    assert [server.get(f"/{link}").status_code for link in links] == [200] * len(links)


def test_the_page_may_only_ask_its_own_server(server: Asked) -> None:
    answer = server.get("/try")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'") and policy.endswith("connect-src 'self'")
    assert answer.headers["cache-control"] == "no-store"
    page = Page(answer.text)
    assert not any("src" in attributes for _, attributes in page.tags)
    labels = {attributes.get("for") for tag, attributes in page.tags if tag == "label"}
    assert labels == {"question", "contexts", "response"}


def test_a_verdict_is_marked_and_not_cached(server: Asked) -> None:
    body = {**EXAMPLE, "response": "It was built in 1994 by a wizard."}
    answer = server.post("/try/verdict", {**body, "threshold": 1})
    assert answer.headers["cache-control"] == "no-store"
    assert "<mark" in answer.text and EXAMPLE["question"] in answer.text
    assert "script-src" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize("text", PAYLOADS[::4])
def test_hostile_texts_are_escaped(server: Asked, text: str) -> None:
    body = {"question": text, "contexts": [text, f"It is {text}."], "response": f"So {text}."}
    answer = server.post("/try/verdict", {**body, "threshold": 1})
    tags = {tag for tag, _ in Page(answer.text).tags}
    assert not tags & {"script", "img", "iframe", "math", "video", "meta", "form", "noscript"}


def test_with_keys_the_page_is_open_and_asks_for_one(serve: Serve) -> None:
    asked = serve(key_file="secret\n")
    assert 'type="password"' in asked.get("/try").text
    assert "needs an API key" in asked.get("/").text
    assert refusal(asked.post("/try/verdict", EXAMPLE))[0] == 401
    allowed = asked.post("/try/verdict", EXAMPLE, {"Authorization": "Bearer secret"})
    assert allowed.status_code == 200
