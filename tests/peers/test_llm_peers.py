"""Peers that ask an LLM, against an endpoint that answers as a script says."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import replace
from unittest.mock import Mock

import pytest

from tests.llm import scripted_endpoint as scripted
from tests.llm.scripted_endpoint import Reply, Script
from tests.peers.scripts import (
    DEEPEVAL,
    EXAMPLE,
    JUDGES,
    RAGAS,
    RIGHT,
    SENTENCES,
    asked,
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


# Digests of all messages about EXAMPLE, and of the documents, with the right answers. A wanted
# change: look at it beside the tool (`benchmarks.peers_against_tools`, or its source).
PROMPTS = {
    "ragas": "10d8f9643684",
    "deepeval": "f3ba1c940926",
    "trulens": "efb337b5bf9c",
    "selfcheck": "7e66cd8c0d43",
    "likert": "fecea968a9d2",
    "chainpoll": "2eca17b9b30e",
    "lynx": "95ffcb990a6f",
    "prometheus": "4d8014bea258",
    "guardian": "50fd2e10987f",
    "glider": "0eaa029a89ae",
    "tlm": "5281a73814fc",
    "tlm-high": "f334e039e0e2",
}


@kinds
def test_right_answers_are_read_and_counted_and_no_prompt_changes_unnoticed(kind: str) -> None:
    script, faithfulness, hallucinated, calls = RIGHT[kind]
    score, bodies = asked(kind, script)
    assert score.faithfulness == pytest.approx(faithfulness)
    assert (score.hallucinated, score.failed) == (hallucinated, None)
    assert score.calls == calls == len(score.raw["answers"])
    assert score.prompt_tokens == calls * scripted.INPUT_TOKENS
    assert score.completion_tokens == calls * scripted.OUTPUT_TOKENS
    whole = json.dumps([(body["messages"], body.get("documents")) for body in bodies])
    assert hashlib.sha256(whole.encode()).hexdigest()[:12] == PROMPTS[kind]


def test_chainpoll_is_the_share_of_votes() -> None:
    score = judged("chainpoll", scripted.sequence(*["No.\nVerdict: no", "Verdict: **Yes**"] * 3))
    assert score.faithfulness == pytest.approx(0.6)
    assert score.hallucinated is False


TOO_LONG = scripted.error(400, "This model's maximum context length is 10 tokens")


@kinds
@pytest.mark.parametrize(
    ("reply", "failed"),
    [
        *((text, "unparsable") for text in ("", "I would say so.", '{"SCORE": [1', "{}", "9")),
        (scripted.REFUSED, "refused"),
        (TOO_LONG, "too_long"),
    ],
)
def test_what_is_no_answer_fails_and_is_paid_for(
    kind: str, reply: Reply | str, failed: str
) -> None:
    score = judged(kind, lambda body: reply)
    assert (score.faithfulness, score.failed) == (None, failed)
    assert (score.calls >= 1) == (reply is not TOO_LONG)


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


@pytest.mark.parametrize(
    ("text", "grade"), [("[RESULT] (3)", 3), ("so the Score: 5/5", 5), ("score of 2 ", 2)]
)
def test_prometheus_reads_what_its_own_parser_reads(text: str, grade: int) -> None:
    assert judged("prometheus", lambda body: text).faithfulness == (grade - 1) / 4


def test_trulens_keeps_all_statements_but_numbers_if_the_list_cannot_be_read() -> None:
    script = by_text(ALL_STATEMENTS="none of them", STATEMENT='{"score": 3}')
    listed = replace(EXAMPLE, response=f"{SENTENCES[0]}\n\n2.\n\n{SENTENCES[1]}")
    for example in (EXAMPLE, listed):
        assert judged("trulens", script, example).calls == 1 + len(SENTENCES)
    assert judged("trulens", by_text(ALL_STATEMENTS="[]")).faithfulness == 0


def test_repeats_are_samples_of_their_own() -> None:
    client = Mock(**{"ask.return_value": ChatAnswer("Score: 3", "", "", 1, 1, 0.0)})
    for repeat in range(3):
        LlmPeer("likert", llm_ratings.likert, client, repeat).score(EXAMPLE)
    assert len({call.args[0].key("", "") for call in client.ask.call_args_list}) == 3


def test_prompts_hold_texts_as_they_are() -> None:
    example = RagExample("<b>'&\"", ("{{ 1 + 1 }}", "{% if %}"), "{# no #}")
    text = render("likert", texts_of(example))[0]["content"]
    assert "Context:\n{{ 1 + 1 }}\n{% if %}\nQuestion:\n<b>'&\"\nAnswer:\n{# no #}\n" in text
