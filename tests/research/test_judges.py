"""Judges that ask an LLM, against an endpoint that answers as a script says."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from research.compare.judges import JUDGES
from research.compare.prompts import render, texts_of
from research.compare.systems import Setup, load_system
from tests.llm import scripted_endpoint as scripted
from tests.llm.scripted_endpoint import Reply, Script
from tests.research.scripts import EXAMPLE, RAGAS, RIGHT, SENTENCES, by_text, judged, statements
from trivet.errors import ConfigError
from trivet.llm.chat import LlmError
from trivet.llm.chat_client import ChatClient
from trivet.records import RagExample

judges = pytest.mark.parametrize("name", JUDGES)


@judges
def test_right_answers_are_read_and_counted(name: str) -> None:
    script, faithfulness, hallucinated, calls = RIGHT[name]
    score, bodies = judged(name, script)
    assert score.faithfulness == pytest.approx(faithfulness)
    assert (score.hallucinated, score.failed) == (hallucinated, None)
    assert score.calls == calls == len(bodies)
    assert score.prompt_tokens == calls * scripted.INPUT_TOKENS
    assert score.completion_tokens == calls * scripted.OUTPUT_TOKENS


TOO_LONG = scripted.error(400, "This model's maximum context length is 10 tokens")


@judges
@pytest.mark.parametrize(
    ("reply", "failed"),
    [
        *((text, "unparsable") for text in ("", "I would say so.", '{"SCORE": [1', "{}", "9")),
        (scripted.REFUSED, "refused"),
        (TOO_LONG, "too_long"),
    ],
)
def test_another_reply_fails_the_row_and_is_paid_for(
    name: str, reply: Reply | str, failed: str
) -> None:
    score, _ = judged(name, lambda body: reply)
    assert (score.faithfulness, score.failed) == (None, failed)
    assert (score.calls >= 1) == (reply is not TOO_LONG)


@pytest.mark.parametrize(
    ("name", "call"),
    [*((name, right[-1]) for name, right in RIGHT.items() if right[-1] > 1), ("selfcheck", 10)],
)
def test_a_malformed_answer_to_a_later_call_fails_the_row(name: str, call: int) -> None:
    right, numbers = RIGHT[name][0], itertools.count(1)
    score, _ = judged(name, lambda body: "9" if next(numbers) == call else right(body))
    assert (score.faithfulness, score.failed, score.calls) == (None, "unparsable", call)


def test_a_judge_needs_a_model_and_takes_the_one_after_the_colon() -> None:
    with pytest.raises(ConfigError, match="name its model with --model"):
        load_system("likert", Setup(open_llm=ChatClient))
    system = load_system("likert:judge-8b", Setup(open_llm=ChatClient))
    assert system.model == "judge-8b" and system.about.startswith("likert, prompts ")


def test_a_wrong_key_stops_the_run() -> None:
    with pytest.raises(LlmError, match="refuses the key"):
        judged("likert", lambda body: scripted.error(401, "no such key"))


def test_an_empty_response_is_not_asked_about() -> None:
    score, _ = judged("likert", scripted.sequence("Score: 5"), replace(EXAMPLE, response=" "))
    assert (score.failed, score.calls) == ("empty_response", 0)


def test_chainpoll_is_the_share_of_votes() -> None:
    votes = scripted.sequence(*["No.\nVerdict: no", "Verdict: **Yes**"] * 3)
    score, _ = judged("chainpoll", votes)
    assert score.faithfulness == pytest.approx(0.6)
    assert score.hallucinated is False


def test_ragas_reads_integers_as_the_tool_does() -> None:
    script = by_text(**RAGAS, judge_the_faithfulness=statements("1", 0.0))
    assert judged("ragas", script)[0].faithfulness == 0.5


@pytest.mark.parametrize(
    ("name", "script", "failed"),
    [
        ("ragas", by_text(Break_down='{"statements": []}'), "no_statements"),
        ("ragas", by_text(**RAGAS, judge_the_faithfulness=statements(1, "yes")), "unparsable"),
        ("trulens", by_text(ALL_STATEMENTS="['a']", STATEMENT='{"score": 4}'), "unparsable"),
        ("prometheus", by_text(Rubrics="[RESULT] 6"), "unparsable"),
        ("prometheus", by_text(Rubrics="[RESULT] 4 because it is good"), "unparsable"),
        ("likert", lambda body: "Score: 10", "unparsable"),
        ("likert", lambda body: "Score: 4\nwrite 'Score: <rating>'", "unparsable"),
    ],
)
def test_answers_of_another_form_fail(name: str, script: Script, failed: str) -> None:
    assert judged(name, script)[0].failed == failed


@pytest.mark.parametrize(
    ("name", "text", "grade"),
    [
        ("likert", "Explanation: fine.\n**Score:** 4", 4),
        ("likert", "Score: 1 is too low.\nscore: (5)", 5),
        ("likert", "Explanation: fine.\nScore 2", 2),
        ("prometheus", "[RESULT] (3)", 3),
        ("prometheus", "so the Score: 5/5", 5),
    ],
)
def test_a_grade_is_read_where_the_tool_reads_it(name: str, text: str, grade: int) -> None:
    assert judged(name, lambda body: text)[0].faithfulness == (grade - 1) / 4


def test_trulens_keeps_all_statements_but_numbers_if_the_list_cannot_be_read() -> None:
    script = by_text(ALL_STATEMENTS="none of them", STATEMENT='{"score": 3}')
    listed = replace(EXAMPLE, response=f"{SENTENCES[0]}\n\n2.\n\n{SENTENCES[1]}")
    assert judged("trulens", script, listed)[0].calls == 1 + len(SENTENCES)
    assert judged("trulens", by_text(ALL_STATEMENTS="[]"))[0].faithfulness == 0


def test_tlm_counts_an_answerability_of_zero() -> None:
    right = RIGHT["tlm"][0]
    score, _ = judged(
        "tlm",
        lambda body: (
            "<choice>No</choice>" if "difficulty" in str(body["messages"]) else right(body)
        ),
    )
    assert score.faithfulness == pytest.approx(0.578 * 0.7 / 0.638)


def test_prompts_hold_texts_as_they_are() -> None:
    example = RagExample("<b>'&\"", ("{{ 1 + 1 }}", "{% if %}"), "{# no #}")
    text = render("likert", "user", texts_of(example))[0]["content"]
    assert "Context:\n{{ 1 + 1 }}\n{% if %}\nQuestion:\n<b>'&\"\nAnswer:\n{# no #}\n" in text
