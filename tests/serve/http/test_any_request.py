"""Any request is answered by a verdict or by an error in the common form, never by 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.serve.http.conftest import Asked, EvenBackend, refusal
from trivet.evaluation.evaluator import Evaluator

TEXTS = ("question", "query", "contexts", "documents", "response", "answer", "text", "title")
OPTIONS = ("timeout_ms", "allow_empty_contexts", "threshold")
NAMES = (*TEXTS, *OPTIONS, "id", "examples", "inputs", "parameters", "context")
PATHS = ("/v1/evaluate", "/v1/relevance", "/classify")

texts = st.text(max_size=30) | st.sampled_from(["", " ", "\0", "‮", "é", "\U0001f468‍", "a" * 999])
numbers = st.integers() | st.floats() | st.sampled_from([1e308, 10**400, -0.0, 2**63])
lone = st.just("a\ud800")  # valid JSON, and no text
scalars = st.none() | st.booleans() | numbers | texts | lone
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)
contexts = st.lists(texts | st.fixed_dictionaries({"text": texts}), max_size=3)
good = st.fixed_dictionaries(
    {"question": texts, "contexts": contexts, "response": texts},
    optional={"id": texts, "allow_empty_contexts": st.booleans(), "timeout_ms": st.just(30_000)},
)
examples = st.lists(good | values, max_size=3).map(lambda rows: {"examples": rows})
relevance = st.fixed_dictionaries({"question": texts, "contexts": contexts})
nearly = st.tuples(good, st.sampled_from(NAMES), values).map(lambda t: {**t[0], t[1]: t[2]})
bodies = good | relevance | examples | nearly | values


@pytest.fixture(scope="module")
def quick() -> Iterator[Asked]:
    asked = Asked(Evaluator(backend=EvenBackend()))
    yield asked
    asked.close()


def check(quick: Asked, path: str, raw: bytes) -> int:
    answer = quick.post(path, raw)
    if answer.status_code == 200:
        assert isinstance(json.loads(answer.content, parse_constant=no_constant), dict)
    else:
        assert refusal(answer)[0] in (400, 413, 422)
    return int(answer.status_code)


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} stands in an answer")


@settings(max_examples=300)
@given(bodies, st.sampled_from(PATHS))
@example({"question": "a", "contexts": ["b"], "response": "c"}, "/v1/evaluate")
def test_any_json_is_answered(quick: Asked, body: Any, path: str) -> None:
    check(quick, path, json.dumps(body).encode())


@settings(max_examples=150)
@given(bodies, st.binary(max_size=8), st.integers(0, 200), st.sampled_from(PATHS))
def test_any_damage_is_answered(quick: Asked, body: Any, damage: bytes, at: int, path: str) -> None:
    raw = json.dumps(body, ensure_ascii=False).encode(errors="surrogatepass")
    check(quick, path, raw[:at] + damage + raw[at + len(damage) :])


@given(good)
def test_valid_requests_are_evaluated(quick: Asked, body: dict[str, Any]) -> None:
    allowed = {**body, "allow_empty_contexts": True}
    assert check(quick, "/v1/evaluate", json.dumps(allowed).encode()) == 200
    row = {name: body[name] for name in ("question", "contexts", "response")}
    assert check(quick, "/v1/evaluate", json.dumps({"examples": [row]}).encode()) == 200
