"""Short answers by rules: what is asked and answered, and which sentences are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from trivet.data.labelled.augmentation.short_answers import answer_shortly, short_answer
from trivet.data.labelled.augmentation.twins import make_twin
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

MILL = "The old mill on the river was built in 1790 by Ada Berg, who sold it."


def answers(sentence: str, draws: int = 200) -> set[tuple[str, str]]:
    """Return the questions and responses of many draws."""
    made = (short_answer(sentence, np.random.default_rng(seed)) for seed in range(draws))
    return {(one.question, one.response) for one in made if one is not None}


def test_a_statement_becomes_questions_about_its_values() -> None:
    found = answers(MILL)
    asked = {question for question, _ in found}
    assert {
        "When was the old mill on the river built?",
        "Who was the old mill on the river built in 1790 by?",
        "Tell me about the old mill on the river.",
    } < asked
    given = {text for question, text in found if question.startswith("When")}
    assert given == {
        *("In 1790.", "In 1790", "It was in 1790.", "That was in 1790."),
        "This happened in 1790.",
    }
    given = {text for question, text in found if question.startswith("Who")}
    assert {"Ada Berg.", "Ada Berg", "It is Ada Berg."} < given
    given = {text for question, text in found if question.startswith("Tell")}
    assert given == {"It was built in 1790 by Ada Berg."}, "the clause after the comma is left out"


def test_a_name_keeps_its_capital_and_several_are_they() -> None:
    assert ("Ada Berg?", "It has 12 mills.") in answers("Ada Berg has 12 mills.")
    assert ("The rivers?", "They have 12 mills.") in answers("The rivers have 12 mills.")


@pytest.mark.parametrize(
    "sentence",
    [
        "It was built in 1790.",  # a pronoun
        "The old mill was built by the river.",  # no value
        "If the river rises, the mill is closed for 12 days.",
        "The mill was not built in 1790.",
        "The mill is between 10 and 12 metres tall.",
        "Was the mill built in 1790?",
        "Mills opened in 1790.",  # no verb that the rules know
        "The mill is " + "very " * 12 + "old, from 1790.",  # too long
        "",
    ],
)
def test_a_sentence_that_says_too_little_or_something_else_is_left_alone(sentence: str) -> None:
    assert answers(sentence, 20) == set()


def test_the_answer_is_supported_by_its_sentence_and_the_rest_is_unknown() -> None:
    contexts = ("Nothing is here.", f"A first sentence. {MILL}")
    old = Labels(unsupported=(Span(0, 4),), adherent=False, relevant=(), utilized=(), relevance=0.5)
    labelled = LabelledExample(RagExample("Why?", contexts, "Lies."), old, "a", "one", "model")
    new = answer_shortly(labelled, np.random.default_rng(0))
    assert new is not None and new.generator is None
    whole = Span(0, len(new.example.response))
    assert new.example.response_sentences == (whole,)
    source = ContextSpan(1, 18, len(contexts[1]))
    assert contexts[1][18:] == MILL
    evidence = (Evidence(whole, (source,)),)
    assert new.labels == Labels(unsupported=(), adherent=True, evidence=evidence)
    nothing = LabelledExample(RagExample("Why?", ("No.",), "Lies."), old, "a", "one")
    assert answer_shortly(nothing, np.random.default_rng(0)) is None


def test_a_twin_of_a_short_answer_marks_the_wrong_value_alone() -> None:
    contexts = ("The mill was built in 1790.", "The dam was built in 1804.")
    labelled = LabelledExample(RagExample("", contexts, ""), Labels(), "a", "one")
    wrong = set()
    for seed in range(60):
        random = np.random.default_rng(seed)
        row = answer_shortly(labelled, random)
        twin = row and make_twin(row, random)
        if twin and twin.example.contexts == contexts and twin.labels.unsupported:
            wrong |= {twin.example.response[s.start : s.end] for s in twin.labels.unsupported}
    years = {text for text in wrong if text.isdecimal()}
    assert {"1790", "1804"} < years, "years of the contexts, and years nearly right"
