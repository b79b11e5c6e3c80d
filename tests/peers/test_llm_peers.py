"""Peers that ask an LLM, against an endpoint that answers as a script says."""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.llm import scripted_endpoint as scripted
from tests.llm.scripted_endpoint import Reply, Script, ScriptedEndpoint, last_text
from trivet.errors import ConfigError
from trivet.llm.chat import ChatAnswer, TokenLogprob
from trivet.llm.client import ChatClient
from trivet.llm.errors import LlmError
from trivet.peers import llm_claims, llm_ratings, tlm
from trivet.peers.llm_peer import Judge, LlmPeer, probability, render, texts_of
from trivet.peers.peer import PeerScore, PeerSetup, load_peer
from trivet.records import RagExample

EXAMPLE = RagExample(
    "When was the mill built?",
    ("The mill was built in 1817.", "It is in the north."),
    "The mill was built in 1817. It is made of wood.",
)
SENTENCES = ["The mill was built in 1817.", "It is made of wood."]
JUDGES: dict[str, Judge] = {
    **llm_claims.JUDGES,
    **llm_ratings.JUDGES,
    **{kind: functools.partial(tlm.trust, samples=n) for kind, n in tlm.SAMPLES.items()},
}


def by_text(**replies: str) -> Script:
    """Return a script that answers by the first key that the request holds."""

    def reply(body: dict[str, Any]) -> str:
        text = " ".join(message["content"] for message in body["messages"])
        return next(answer for key, answer in replies.items() if key.replace("_", " ") in text)

    return reply


def verdicts(*values: Any) -> str:
    return json.dumps({"verdicts": [{"verdict": value} for value in values]})


def statements(*values: Any) -> str:
    found = [
        {"statement": text, "reason": "", "verdict": value}
        for text, value in zip(SENTENCES, values, strict=True)
    ]
    return f"```json\n{json.dumps({'statements': found})}\n```"


RAGAS = {"Break_down": json.dumps({"statements": SENTENCES})}
DEEPEVAL = {
    "retrieval_context": verdicts("Yes", "no"),
    '"truths"': json.dumps({"truths": ["The mill was built in 1817."]}),
    '"claims"': json.dumps({"claims": SENTENCES}),
}
TLM = {
    "between_0-100_indicating": "<score>\n80\n</score>",
    "between_0-10_indicating": "<score>5</score>",
    "measure_the_difficulty": "<choice>\nYes\n</choice>",
    "two_statements": "<answer>Yes</answer>",
    "Answer_the_question": "The mill was built in 1817.",
}
# The sampled answer has 6 of the response's 11 distinct words.
SIMILAR = 0.05 * 6 / 11 + 0.95
RIGHT: dict[str, tuple[Script, float, bool | None, int]] = {
    "ragas": (by_text(**RAGAS, judge_the_faithfulness=statements(1, 0)), 0.5, None, 2),
    "deepeval": (by_text(**DEEPEVAL), 0.5, False, 3),
    "trulens": (
        by_text(
            ALL_STATEMENTS=str(SENTENCES),
            **{"STATEMENT:_The": '{"criteria": "", "supporting_evidence": "", "score": 3}'},
            STATEMENT='{"score": 1}',
        ),
        2 / 3,
        None,
        3,
    ),
    "selfcheck": (
        by_text(
            Answer_the_question="The mill was built in 1817.",
            **{"Sentence:_The": "Yes", "Sentence:_It": "No."},
        ),
        0.5,
        None,
        5 + 2 * 5,
    ),
    "likert": (by_text(Evaluate="Explanation: score: 2 of the facts.\nScore: 4"), 0.75, None, 1),
    "chainpoll": (
        scripted.sequence(*["No.\nVerdict: no", "Verdict: **Yes**"] * 3),
        0.6,
        False,
        5,
    ),
    "lynx": (by_text(DOCUMENT='{"REASONING": ["one"], "SCORE": FAIL}'), 0.0, True, 1),
    "prometheus": (by_text(Rubrics="Mostly grounded. [RESULT] 4"), 0.75, None, 1),
    "guardian": (by_text(guardian="<think>\n</think>\n<score> no </score>"), 1.0, False, 1),
    "glider": (
        by_text(Pass="<reasoning>\n- 1\n</reasoning>\n<score>\n2\n</score>"),
        0.25,
        None,
        1,
    ),
    "tlm": (by_text(**TLM), (0.578 * (0.8 + 0.5 + 0.8) / 3 + 0.06) / 0.638, None, 4),
    "tlm-high": (
        by_text(**TLM),
        0.578 * (0.8 + 0.5 + 0.8) / 3 + 0.06 + 0.353 * SIMILAR,
        None,
        4 + 4 + 4,
    ),
}
# Digests of all messages about EXAMPLE, with the answers above.
PROMPTS = {
    "ragas": "3bac97b58f8b",
    "deepeval": "f324b0cce811",
    "trulens": "286b39bffa96",
    "selfcheck": "0a4b1d5e0db1",
    "likert": "d049c03129fe",
    "chainpoll": "b97924831e86",
    "lynx": "81ff36379770",
    "prometheus": "b5d248e71528",
    "guardian": "e6f42e9731b5",
    "glider": "aafe0dbb342c",
    "tlm": "0cdb39daa22d",
    "tlm-high": "21dbff2f1112",
}
kinds = pytest.mark.parametrize("kind", JUDGES)


def judged(kind: str, script: Script, example: RagExample = EXAMPLE) -> PeerScore:
    with (
        ScriptedEndpoint(script) as endpoint,
        ChatClient("scripted", base_url=endpoint.url) as client,
    ):
        return LlmPeer(kind, JUDGES[kind], client).score(example)


@kinds
def test_right_answers_are_read_and_counted(kind: str) -> None:
    script, faithfulness, hallucinated, calls = RIGHT[kind]
    score = judged(kind, script)
    assert score.faithfulness == pytest.approx(faithfulness)
    assert (score.hallucinated, score.failed) == (hallucinated, None)
    assert score.calls == calls == len(score.raw)
    assert score.prompt_tokens == calls * scripted.INPUT_TOKENS
    assert score.completion_tokens == calls * scripted.OUTPUT_TOKENS


@kinds
def test_no_prompt_changes_unnoticed(kind: str) -> None:
    with (
        ScriptedEndpoint(RIGHT[kind][0]) as endpoint,
        ChatClient("scripted", base_url=endpoint.url) as client,
    ):
        LlmPeer(kind, JUDGES[kind], client).score(EXAMPLE)
    whole = json.dumps([body["messages"] for body in endpoint.bodies])
    # A wanted change: look at it beside the tool (`benchmarks.peers_against_tools`, or its source).
    assert hashlib.sha256(whole.encode()).hexdigest()[:12] == PROMPTS[kind]


@kinds
@pytest.mark.parametrize("text", ["", "I would say that it is so.", '{"SCORE": [1', "{}", "9"])
def test_malformed_answers_fail_and_are_paid_for(kind: str, text: str) -> None:
    score = judged(kind, lambda body: text)
    assert (score.faithfulness, score.failed) == (None, "unparsable")
    assert score.calls >= 1


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


def test_a_slow_answer_holds_up_no_other_row() -> None:
    other = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        if "first" in last_text(body):
            return Reply("Score: 1", wait=other)
        other.set()
        return Reply("Score: 5")

    rows = [replace(EXAMPLE, question=question) for question in ("warm", "first", "second")]
    with (
        ScriptedEndpoint(script) as endpoint,
        ChatClient("scripted", base_url=endpoint.url) as client,
        concurrent.futures.ThreadPoolExecutor(2) as pool,
    ):
        peer = LlmPeer("likert", llm_ratings.likert, client)
        peer.score(rows[0])
        other.clear()
        scores = list(pool.map(peer.score, rows[1:]))
    assert [score.faithfulness for score in scores] == [0, 1]


@pytest.mark.parametrize(
    ("values", "faithfulness"),
    [(["yes", "yes"], 1), (["yes", "borderline"], 1), (["no", "no"], 0)],
)
def test_deepeval_passes_what_no_truth_contradicts(values: list[str], faithfulness: float) -> None:
    script = by_text(**DEEPEVAL | {"retrieval_context": verdicts(*values)})
    assert judged("deepeval", script).faithfulness == faithfulness


@pytest.mark.parametrize(
    ("kind", "script", "failed"),
    [
        ("ragas", by_text(Break_down='{"statements": []}'), "no_statements"),
        (
            "ragas",
            by_text(**RAGAS, judge_the_faithfulness=statements(1, 2)),
            "unparsable",
        ),
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


def tokens(*parts: tuple[str, dict[str, float]]) -> ChatAnswer:
    logprobs = tuple(TokenLogprob(text, 0.0, top) for text, top in parts)
    return ChatAnswer("".join(text for text, _ in parts), "", "", 1, 1, 0.0, logprobs=logprobs)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            tokens(("SCORE: ", {}), ("PASS", {"PASS": -0.5, "FAIL": -1.5})),
            1 / (1 + 2.718281828**-1),
        ),
        (tokens(("SCORE:", {}), (' "P', {' "P': -1.0, " F": -1.0}), ("ASS", {})), 0.5),
        (tokens(("SCORE: ", {}), ("PASS", {"PASS": 0.0, "maybe": -1.0})), 1.0),
        (replace(tokens(("SCORE: PASS", {})), logprobs=()), 1.0),
        (replace(tokens(("SCORE: FAIL", {})), logprobs=()), 0.0),
    ],
)
def test_the_probability_of_a_verdict_is_read_off_its_token(
    answer: ChatAnswer, expected: float
) -> None:
    at = answer.text.index("PASS" if "PASS" in answer.text else "FAIL")
    assert probability(answer, at, "PASS", "FAIL") == pytest.approx(expected)


def test_repeats_are_samples_of_their_own() -> None:
    with (
        ScriptedEndpoint(lambda body: "Score: 3") as endpoint,
        ChatClient("scripted", base_url=endpoint.url) as client,
    ):
        keys = set()
        ask: Callable[..., ChatAnswer] = client.ask_blocking

        def keep(request: Any) -> ChatAnswer:
            keys.add(request.key("", ""))
            return ask(request)

        client.ask_blocking = keep  # type: ignore[method-assign]
        for repeat in range(3):
            LlmPeer("likert", llm_ratings.likert, client, repeat).score(EXAMPLE)
    assert len(keys) == 3


def test_prompts_hold_texts_as_they_are() -> None:
    example = RagExample("<b>'&\"", ("{{ 1 + 1 }}", "{% if %}"), "{# no #}")
    text = render("likert", texts_of(example))[0]["content"]
    assert "Context:\n{{ 1 + 1 }}\n{% if %}\nQuestion:\n<b>'&\"\nAnswer:\n{# no #}\n" in text
