"""``POST /classify`` keeps every rule of ``token_spans.v1`` that vLLM Semantic Router checks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serve.http.conftest import EXAMPLE, Asked, EvenBackend, Serve, refusal
from trivet.evaluation.evaluator import Evaluator
from trivet.records import SpanCategory
from trivet.serve.http.evaluation_routes import passages
from trivet.serve.http.server_settings import ServerSettings

LABELS = {"hallucinated", *get_args(SpanCategory)}
HOSTILE = {
    "emoji": "At \U0001f468\u200d\U0001f467 in 1931 \U0001f3f4\U000e0067. \U0001f44d\U0001f3fd!",
    "combining": "Le pharé fut bâti en 1884́. न्दी में १८८४.",
    "line ends": "It was built in 1884.\r\n\r\nIts keeper left.\rIt is red.\u2028It is old.",
    "right to left": "‮המגדלור نבנה في 1884‬. It is old.",
    "astral": "\U0001d54b\U0001d559\U0001d556 bridge \U00020000\U00020001 of 1884 is 12 m long.",
    "controls": "\ufeffIt\0was\x07built\tin 1884.\x85Its keeper left.",
    "long": "The keeper left in 1931, and the ferry is 12 m long. " * 1900,
    "one word": "\U0001f600a" * 50_000,
    "marks alone": "?! ... \u0301\u0301",
    "blank": " \r\n ",
    "empty": "",
}


def ask(server: Asked, answer: str, context: Any = "The bridge is old.", **more: Any) -> Any:
    """Return the answer of ``/classify`` after a client has checked it by the contract."""
    parameters = {"context": context, "question": EXAMPLE["question"], **more}
    response = server.post("/classify", {"inputs": answer, "parameters": parameters})
    assert response.status_code == 200, response.text
    scan = json.loads(response.content.decode("utf-8"))
    check(scan, answer, server.get("/v1/info").json()["bundle"]["name"])
    return scan


def check(scan: Any, answer: str, model: str) -> None:
    """Raise where the router would refuse the answer."""
    assert scan.keys() <= {"spans", "truncated_at", "model"}
    assert isinstance(scan["spans"], list)
    assert scan.get("model", model) == model
    cut = scan.get("truncated_at", len(answer))
    assert type(cut) is int and 0 <= cut <= len(answer)
    seen = set()
    for span in scan["spans"]:
        assert span["label"] in LABELS
        assert not span["label"].startswith(("B-", "I-"))
        start, end = span["start"], span["end"]
        assert type(start) is type(end) is int
        assert 0 <= start < end <= cut
        assert span["text"] == answer[start:end]
        assert type(span["score"]) is float and 0 <= span["score"] <= 1
        assert (span["label"], start, end) not in seen
        seen.add((span["label"], start, end))


@pytest.fixture(scope="module")
def doubting() -> Iterator[Asked]:
    """Return a server whose model supports nothing."""
    asked = Asked(Evaluator(backend=EvenBackend(1e-6)))
    yield asked
    asked.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answers_are_marked_by_the_contract(doubting: Asked, name: str) -> None:
    answer = HOSTILE[name]
    spans = ask(doubting, answer, "\n\n".join(["The ferry is red.", answer[:999]]))["spans"]
    assert bool(spans) == any(map(str.isalnum, answer))


@settings(max_examples=100)
@given(
    st.text(max_size=60),
    st.text(st.sampled_from("ab1. \r\n\u2028\U0001f600\u0301"), min_size=1, max_size=60),
)
def test_any_answer_and_context_are_marked_by_the_contract(
    doubting: Asked, answer: str, context: str
) -> None:
    ask(doubting, answer, context, allow_empty_contexts=True)


def test_labels_are_the_categories_of_the_verdict(server: Asked, embedded: Evaluator) -> None:
    asked = ("When was it built?", ["The bridge was built in 1884.", "It is old."])
    answer = "It was built in 1902. Its architect was a famous Roman engineer."
    verdict = embedded.evaluate(*asked, answer)
    scan = ask(server, answer, "\n \n".join(asked[1]), question=asked[0])
    assert scan["model"] == embedded.bundle.info.name
    assert "truncated_at" not in scan
    assert [(s["start"], s["end"], s["label"]) for s in scan["spans"]] == [
        (span.start, span.end, span.category or "hallucinated") for span in verdict.unsupported
    ]
    assert {"contradiction", "hallucinated"} <= {s["label"] for s in scan["spans"]}
    for mine, span in zip(scan["spans"], verdict.unsupported, strict=True):
        assert mine["score"] == pytest.approx(span.probability, abs=1e-4)
    assert ask(server, answer, asked[1], question=asked[0])["spans"] == scan["spans"]
    supported = ask(server, "The bridge was built in 1884.", asked[1], threshold=0.0)
    assert supported == {"spans": [], "model": scan["model"]}


def test_a_cut_question_makes_the_scan_partial(doubting: Asked) -> None:
    answer = "It was built in 1884."
    scan = ask(doubting, answer, question="Which bridge was it? " * 200)
    assert scan["truncated_at"] == len(answer)
    assert scan["spans"]


def test_a_text_is_cut_at_blank_lines() -> None:
    text = "One.\r\nStill one.\r\n \t\r\n\r\nTwo.\n\nThree.\n"
    assert passages(text, 9) == ("One.\r\nStill one.", "Two.", "Three.")
    assert passages(text, 2) == ("One.\r\nStill one.\r\n\nTwo.", "Three.")
    assert passages(" \n\r\n", 9) == passages("", 9) == ()
    many = passages("a\n\n" * 1000, 256)
    assert len(many) == 250
    assert "".join(many).count("a") == 1000


def test_a_text_of_many_paragraphs_is_within_the_limit(serve: Serve) -> None:
    server = serve(ServerSettings(max_contexts=3), backend=EvenBackend(1e-6))
    assert ask(server, "Red.", "The ferry is red.\n\n" * 50)["spans"]
    body = {"inputs": "Red.", "parameters": {"context": ["a"] * 4}}
    assert refusal(server.post("/classify", body))[:2] == (422, "too_long")


def test_a_model_without_support_is_never_clean(serve: Serve) -> None:
    evaluator = Evaluator(backend=EvenBackend())
    info = evaluator.bundle.info.model_copy(update={"thresholds": None})
    evaluator.bundle = dataclasses.replace(evaluator.bundle, info=info)
    body = {"inputs": "Red.", "parameters": {"context": "The ferry is red."}}
    refused = refusal(serve(evaluator=evaluator).post("/classify", body))
    assert refused[:2] == (500, "backend_failed")
    assert "no support head" in refused[2]
