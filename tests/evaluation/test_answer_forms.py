"""The embedded verdict on answers in other forms than their passages, wrong answers and none."""

from __future__ import annotations

import pytest

from trivet.evaluation.evaluator import Evaluator

PLANS = "The basic plan costs 12 euros a month. The premium plan costs 29 euros a month."
EXPORT = "Premium users can also export a route as a GPX or KML file."
LINK = "The link works for 30 days."


@pytest.mark.parametrize(
    ("contexts", "response"),
    [
        (["The monthly rent is 640 euros."], "The rent is €640."),
        (["The monthly rent is €640."], "The rent is 640 euros."),
        (["The tank holds 4,812 litres."], "It holds 4812 litres."),
        (["The tank holds 4812 litres."], "It holds 4,812 litres."),
        ([EXPORT, LINK], f"{LINK}\n\n### Export\n\n{EXPORT}"),
        ([PLANS], "| Plan | Price |\n|---|---|\n| Basic | 12 euros |\n| Premium | 29 euros |"),
    ],
    ids=["euro sign", "word for euro", "no comma", "comma", "heading", "table"],
)
def test_a_right_answer_in_another_form_is_adherent(
    embedded: Evaluator, contexts: list[str], response: str
) -> None:
    verdict = embedded.evaluate("What does it say?", contexts, response)
    assert verdict.adherent and not verdict.unsupported


@pytest.mark.parametrize("response", ["---", "## ", "| |", " \n"])
def test_marks_alone_are_no_response(embedded: Evaluator, response: str) -> None:
    verdict = embedded.evaluate("What does it say?", [PLANS], response)
    assert verdict.faithfulness is None and verdict.adherent is None
    assert verdict.relevance is not None and verdict.sentences == ()


@pytest.mark.parametrize(
    "response",
    [
        "The premium plan costs 29 euros a month.",
        "It costs 92 euros a year.",
        "I do not know.",
        "Lighthouses are painted white so that sailors see them.",
    ],
    ids=["right", "wrong", "refusal", "foreign"],
)
def test_no_answer_moves_the_relevance_of_a_passage(embedded: Evaluator, response: str) -> None:
    passages = ["The keeper lived in the north tower.", PLANS, f"{EXPORT} {LINK}"]
    question = "What does the premium plan cost?"
    alone, answered = (embedded.evaluate(question, passages, text) for text in ("", response))
    for before, after in zip(alone.contexts, answered.contexts, strict=True):
        assert before.relevance == pytest.approx(after.relevance, abs=0.1)
    assert max(alone.contexts, key=lambda context: context.relevance or 0) is alone.contexts[1]
