"""Scores of judges by the log probabilities of a verdict's token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from tests.llm.scripted_endpoint import Reply, last_text
from tests.peers.scripts import EXAMPLE, SIMILAR, TLM, by_text, judged
from trivet.llm.chat import ChatAnswer, TokenLogprob
from trivet.peers.llm_peer import probability

BROKEN = "\ufffd"  # how a part of a character is sent


def tokens(*parts: tuple[str, dict[str, float]], text: str = "") -> ChatAnswer:
    logprobs = tuple(TokenLogprob(token, -9.0, top) for token, top in parts)
    text = text or "".join(token for token, _ in parts)
    return ChatAnswer(text, "", "", 1, 1, 0.0, logprobs=logprobs)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (tokens(("SCORE: ", {}), ("PASS", {"PASS": -0.5, "FAIL": -1.5})), 1 / (1 + math.exp(-1))),
        (tokens(("SCORE:", {}), (' "P', {' "P': -1.0, " F": -1.0}), ("ASS", {})), 0.5),
        (tokens(("SCORE: ", {}), ("PASS", {"PASS": 0.0, "maybe": -1.0})), 1.0),
        (tokens(("SCORE: ", {}), ("FAIL", {"FAIL": -1.0, "PASS": -1.0})), 0.5),
        (tokens(("SCORE", {}), (':"PASS', {':"PASS': -1.0, ':"FAIL': -1.0}), ('"}', {})), 0.5),
        # The said token may be missing among its alternatives, and has a log probability of -9.
        (tokens(("SCORE: ", {}), ("PASS", {"FAIL": -9.0})), 0.5),
        # One character in two tokens before the verdict, two characters lost behind it.
        (
            tokens(
                (BROKEN, {}),
                (BROKEN, {}),
                (" SCORE: ", {"PASS": 0.0}),
                ("PASS", {"PASS": -1.0, "FAIL": -1.0}),
                (BROKEN, {"PASS": 0.0}),
                ("<|eot_id|>", {}),
                text="é SCORE: PASS\u2026",
            ),
            0.5,
        ),
        # The verdict's word comes again behind it.
        (
            tokens(
                ("PASS", {"PASS": -1.0, "FAIL": -1.0}),
                (" as they ", {}),
                ("PASS", {"PASS": 0.0, "FAIL": -9.0}),
            ),
            0.5,
        ),
        (tokens(text="SCORE: PASS"), None),
        (tokens(("other tokens", {"PASS": -1.0}), text="SCORE: PASS"), None),
    ],
)
def test_the_probability_of_a_verdict_is_read_off_its_token(
    answer: ChatAnswer, expected: float | None
) -> None:
    at = answer.text.index("PASS" if "PASS" in answer.text else "FAIL")
    assert probability(answer, at, "PASS", "FAIL") == pytest.approx(expected)


def spoken(before: str, verdict: Mapping[str, float], after: str) -> Reply:
    """Return an answer of three tokens, the second of which has alternatives."""
    said = next(iter(verdict))
    return Reply(f"{before}{said}{after}", logprobs=[{before: 0.0}, verdict, {after: 0.0}])


YES = {"Yes": math.log(0.9), "No": math.log(0.1)}


@pytest.mark.parametrize(
    ("kind", "reply", "faithfulness", "hallucinated"),
    [
        (
            "lynx",
            spoken(
                '{"REASONING": ["one"], "SCORE": "', {"FAIL": math.log(0.6), "PASS": -1.5}, '"}'
            ),
            math.exp(-1.5) / (0.6 + math.exp(-1.5)),
            True,
        ),
        (
            "guardian",
            spoken("<score>", {"no": math.log(0.6), "yes": math.log(0.2)}, "</score>"),
            0.75,
            False,
        ),
    ],
)
def test_a_trained_judge_is_scored_by_its_log_probabilities(
    kind: str, reply: Reply, faithfulness: float, hallucinated: bool
) -> None:
    bodies: list[dict[str, Any]] = []

    def script(body: dict[str, Any]) -> Reply:
        bodies.append(body)
        return reply

    score = judged(kind, script)
    assert score.faithfulness == pytest.approx(faithfulness)
    assert score.hallucinated is hallucinated
    assert score.raw == {"answers": [reply.text], "hard": False}
    assert bodies[0]["max_tokens"] == {"lynx": 600, "guardian": 48}[kind]


def test_a_verdict_without_log_probabilities_is_recorded_as_hard() -> None:
    score = judged("lynx", lambda body: '{"SCORE": "PASS"}')
    assert (score.faithfulness, score.raw["hard"]) == (1, True)


def test_tlm_weighs_its_parts_as_for_a_model_with_log_probabilities() -> None:
    answers = by_text(**TLM)
    choice = spoken("<choice>\n", YES, "\n</choice>")
    sampled = iter([EXAMPLE.response])  # one of four samples is the response itself

    def script(body: dict[str, Any]) -> Reply | str:
        if "measure the difficulty" in last_text(body):
            return choice
        if last_text(body).startswith("Answer the question"):
            return next(sampled, TLM["Answer_the_question"])
        return answers(body)

    # Reflection is (.8 + .5 + .8) / 3 = .7, answerability .9.
    medium = judged("tlm", script)
    assert medium.faithfulness == pytest.approx((0.639 * 0.7 + 0.06 * 0.9) / 0.699)
    assert medium.raw["hard"] is False
    high = judged("tlm-high", script).faithfulness
    consistency = (1 + 3 * SIMILAR) / 4
    expected = 0.1 * consistency + 0.001 * 0.25 + 0.639 * 0.7 + 0.06 * 0.9
    assert high == pytest.approx(expected / 0.8)


def test_tlm_counts_an_answerability_of_zero() -> None:
    script = by_text(**TLM | {"measure_the_difficulty": "<choice>No</choice>"})
    assert judged("tlm", script).faithfulness == pytest.approx(0.578 * 0.7 / 0.638)
