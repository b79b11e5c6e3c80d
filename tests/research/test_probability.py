"""Scores of judges by the log probabilities of a verdict's token."""

from __future__ import annotations

import math

import pytest

from research.compare.prompts import probability
from tests.llm.scripted_endpoint import Reply
from tests.research.scripts import judged
from trivet.llm.chat import ChatAnswer, TokenLogprob

BROKEN = "\ufffd"  # how a part of a character is sent


def tokens(*parts: tuple[str, dict[str, float]], text: str = "") -> ChatAnswer:
    logprobs = tuple(TokenLogprob(token, -9.0, top) for token, top in parts)
    text = text or "".join(token for token, _ in parts)
    return ChatAnswer(text, "", "", 1, 1, logprobs=logprobs)


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
        (tokens(text="SCORE: PASS"), 1.0),
        (tokens(("other tokens", {"PASS": -1.0}), text="SCORE: FAIL"), 0.0),
    ],
)
def test_the_probability_of_a_verdict_is_read_off_its_token(
    answer: ChatAnswer, expected: float
) -> None:
    at = answer.text.index("PASS" if "PASS" in answer.text else "FAIL")
    assert probability(answer, at, "PASS", "FAIL") == pytest.approx(expected)


def test_lynx_is_scored_by_its_log_probabilities() -> None:
    before, verdict, after = '{"REASONING": ["one"], "SCORE": "', {"FAIL": -0.5, "PASS": -1.5}, '"}'
    reply = Reply(f"{before}FAIL{after}", logprobs=[{before: 0.0}, verdict, {after: 0.0}])
    score, bodies = judged("lynx", lambda body: reply)
    assert score.faithfulness == pytest.approx(1 / (1 + math.e))
    assert score.hallucinated is True
    assert bodies[0]["max_tokens"] == 600
