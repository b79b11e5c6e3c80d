"""The embedded verdict on right answers that are written otherwise than their passages."""

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
