"""Peers that ask an LLM, against an endpoint that answers as a script says."""

from __future__ import annotations

import concurrent.futures
import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.llm import scripted_endpoint as scripted
from tests.llm.scripted_endpoint import Reply, Script, ScriptedEndpoint
from tests.peers.scripts import (
    DEEPEVAL,
    EXAMPLE,
    JUDGES,
    RAGAS,
    RIGHT,
    SENTENCES,
    by_text,
    judged,
    statements,
    verdicts,
)
from trivet.errors import ConfigError
from trivet.llm.chat import ChatAnswer, LlmError
from trivet.llm.client import ChatClient
from trivet.peers import llm_ratings
from trivet.peers.llm_peer import LlmPeer, render, texts_of
from trivet.peers.peer import PeerSetup, load_peer
from trivet.records import RagExample

kinds = pytest.mark.parametrize("kind", JUDGES)


@kinds
def test_right_answers_are_read_and_counted(kind: str) -> None:
    script, faithfulness, hallucinated, calls = RIGHT[kind]
    score = judged(kind, script)
    assert score.faithfulness == pytest.approx(faithfulness)
    assert (score.hallucinated, score.failed) == (hallucinated, None)
    assert score.calls == calls == len(score.raw["answers"])
    assert score.prompt_tokens == calls * scripted.INPUT_TOKENS
    assert score.completion_tokens == calls * scripted.OUTPUT_TOKENS


def test_chainpoll_is_the_share_of_votes() -> None:
    score = judged("chainpoll", scripted.sequence(*["No.\nVerdict: no", "Verdict: **Yes**"] * 3))
    assert score.faithfulness == pytest.approx(0.6)
    assert score.hallucinated is False


@kinds
@pytest.mark.parametrize("text", ["", "I would say that it is so.", '{"SCORE": [1', "{}", "9"])
def test_malformed_answers_fail_and_are_paid_for(kind: str, text: str) -> None:
    score = judged(kind, lambda body: text)
    assert (score.faithfulness, score.failed) == (None, "unparsable")
    assert score.calls >= 1


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        *((kind, right[-1]) for kind, right in RIGHT.items() if right[-1] > 1),
        ("selfcheck", 10),
        ("tlm", 3),
        ("tlm-high", 4),
    ],
)
def test_a_malformed_answer_to_a_later_call_fails_the_row(kind: str, call: int) -> None:
    right, numbers = RIGHT[kind][0], itertools.count(1)
    score = judged(kind, lambda body: "9" if next(numbers) == call else right(body))
    assert (score.faithfulness, score.failed, score.calls) == (None, "unparsable", call)
    assert score.completion_tokens == call * scripted.OUTPUT_TOKENS


@kinds
def test_a_refusal_fails(kind: str) -> None:
    score = judged(kind, lambda body: scripted.REFUSED)
    assert (score.failed, score.calls) == ("refused", 1)


@kinds
def test_a_row_that_the_endpoint_cannot_answer_fails_alone(kind: str) -> None:
    too_long = scripted.error(400, "This model's maximum context length is 10 tokens")
    assert judged(kind, lambda body: too_long).failed == "too_long"


@kinds
def test_a_judge_needs_a_model_and_takes_the_one_after_the_colon(kind: str) -> None:
    with pytest.raises(ConfigError, match="name its model with --model"):
        load_peer(kind, PeerSetup())
    peer = load_peer(f"{kind}:judge-8b", PeerSetup(open_llm=ChatClient))
    assert (peer.model, peer.concurrent) == ("judge-8b", True)
    assert peer.about.startswith(f"{kind}, prompts ")


def test_a_wrong_key_stops_the_run() -> None:
    with pytest.raises(LlmError, match="refuses the key"):
        judged("likert", lambda body: scripted.error(401, "no such key"))


def test_an_empty_response_is_not_asked_about() -> None:
    score = judged("likert", scripted.sequence("Score: 5"), replace(EXAMPLE, response=" "))
    assert (score.failed, score.calls) == ("empty_response", 0)


@kinds
def test_a_slow_answer_holds_up_no_other_row(kind: str) -> None:
    right, gate = RIGHT[kind][0], threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        reply = right(body)
        assert isinstance(reply, str)
        return Reply(reply, wait=gate if "Slow" in str(body) else None)

    slow = replace(EXAMPLE, question="Slow?", contexts=("Slow.",))
    with (
        ScriptedEndpoint(script) as endpoint,
        ChatClient("scripted", base_url=endpoint.url) as client,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        peer = LlmPeer(kind, JUDGES[kind], client)
        peer.score(EXAMPLE)  # the first call to an endpoint is made alone
        first = pool.submit(peer.score, slow)
        try:
            assert pool.submit(peer.score, EXAMPLE).result(30).failed is None
            assert not first.done()
        finally:
            gate.set()
        assert first.result(30).failed is None


@pytest.mark.parametrize(
    ("values", "faithfulness"), [(["yes", "yes"], 1), (["yes", "borderline"], 1), (["no", "no"], 0)]
)
def test_deepeval_passes_what_no_truth_contradicts(values: list[str], faithfulness: float) -> None:
    script = by_text(**DEEPEVAL | {"retrieval_context": verdicts(*values)})
    assert judged("deepeval", script).faithfulness == faithfulness


def test_ragas_reads_integers_as_the_tool_does() -> None:
    script = by_text(**RAGAS, judge_the_faithfulness=statements("1", 0.0))
    assert judged("ragas", script).faithfulness == 0.5


@pytest.mark.parametrize(
    ("kind", "script", "failed"),
    [
        ("ragas", by_text(Break_down='{"statements": []}'), "no_statements"),
        ("ragas", by_text(**RAGAS, judge_the_faithfulness=statements(1, "yes")), "unparsable"),
        ("deepeval", by_text(**DEEPEVAL | {"retrieval_context": verdicts("yes")}), "unparsable"),
        ("deepeval", by_text(**DEEPEVAL | {"retrieval_context": verdicts("idk", 1)}), "unparsable"),
        ("trulens", by_text(ALL_STATEMENTS="['a']", STATEMENT='{"score": 4}'), "unparsable"),
        ("prometheus", by_text(Rubrics="[RESULT] 6"), "unparsable"),
        ("prometheus", by_text(Rubrics="[RESULT] 4 because it is good"), "unparsable"),
    ],
)
def test_answers_of_another_form_fail(kind: str, script: Script, failed: str) -> None:
    assert judged(kind, script).failed == failed


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("Explanation: fine. Score: 4", 4),
        ("Explanation: fine.\n**Score: 4**", 4),
        ("Explanation: fine.\n**Score:** 4", 4),
        ("Explanation: fine.\nScore: <4>", 4),
        ("Score: 1 is too low.\nscore: (five)", 5),
        ("Explanation: fine.\nScore 2", 2),
        ("Score: 4/5", 4),
        ("Score:\n3.", 3),
    ],
)
def test_likert_takes_the_rating_behind_the_last_score(text: str, grade: int) -> None:
    assert judged("likert", lambda body: text).faithfulness == (grade - 1) / 4


@pytest.mark.parametrize(
    "text",
    ["Score: 10", "Score: 4.5", "Score: 0", "Score: 4\nwrite 'Score: <rating>'", "Score: -1"],
)
def test_likert_reads_no_other_rating_than_the_last(text: str) -> None:
    assert judged("likert", lambda body: text).failed == "unparsable"


def test_prometheus_is_asked_without_a_system_message() -> None:
    bodies: list[dict[str, Any]] = []

    def script(body: dict[str, Any]) -> str:
        bodies.append(body)
        return "[RESULT] 4"

    judged("prometheus", script)
    (message,) = bodies[0]["messages"]
    assert message["role"] == "user"
    assert message["content"].startswith("You are a fair judge assistant tasked with")
    assert "set for performance.\n###Task Description:\nAn instruction" in message["content"]


@pytest.mark.parametrize(
    ("text", "grade"), [("[RESULT] (3)", 3), ("so the Score: 5/5", 5), ("score of 2 ", 2)]
)
def test_prometheus_reads_what_its_own_parser_reads(text: str, grade: int) -> None:
    assert judged("prometheus", lambda body: text).faithfulness == (grade - 1) / 4


def test_trulens_keeps_all_statements_if_the_list_cannot_be_read() -> None:
    script = by_text(ALL_STATEMENTS="none of them", STATEMENT='{"score": 3}')
    score = judged("trulens", script)
    assert score.sentences is not None
    assert [one.text for one in score.sentences] == SENTENCES
    assert judged("trulens", by_text(ALL_STATEMENTS="[]")).faithfulness == 0


def test_trulens_takes_no_number_of_a_list_for_a_statement() -> None:
    script = by_text(ALL_STATEMENTS="none of them", STATEMENT='{"score": 3}')
    listed = replace(EXAMPLE, response=f"{SENTENCES[0]}\n\n2.\n\n{SENTENCES[1]}")
    score = judged("trulens", script, listed)
    assert [one.text for one in score.sentences or ()] == SENTENCES


def test_granite_guardian_reads_the_contexts_as_documents() -> None:
    bodies: list[dict[str, Any]] = []

    def script(body: dict[str, Any]) -> str:
        bodies.append(body)
        return "<score>yes</score>"

    assert judged("guardian", script).hallucinated
    assert bodies[0]["documents"] == [
        {"doc_id": "0", "text": EXAMPLE.contexts[0]},
        {"doc_id": "1", "text": EXAMPLE.contexts[1]},
    ]
    roles = [message["role"] for message in bodies[0]["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_repeats_are_samples_of_their_own() -> None:
    with (
        ScriptedEndpoint(lambda body: "Score: 3") as endpoint,
        ChatClient("scripted", base_url=endpoint.url) as client,
    ):
        keys = set()
        ask: Callable[..., ChatAnswer] = client.ask

        def keep(request: Any) -> ChatAnswer:
            keys.add(request.key("", ""))
            return ask(request)

        client.ask = keep  # type: ignore[method-assign]
        for repeat in range(3):
            LlmPeer("likert", llm_ratings.likert, client, repeat).score(EXAMPLE)
    assert len(keys) == 3


def test_prompts_hold_texts_as_they_are() -> None:
    example = RagExample("<b>'&\"", ("{{ 1 + 1 }}", "{% if %}"), "{# no #}")
    text = render("likert", texts_of(example))[0]["content"]
    assert "Context:\n{{ 1 + 1 }}\n{% if %}\nQuestion:\n<b>'&\"\nAnswer:\n{# no #}\n" in text
