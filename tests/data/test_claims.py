"""Roles of sentences: what claims nothing, what abstains, and what must still be judged."""

from __future__ import annotations

import pytest

from trivet.data.claims import SentenceRole, role_of, sentence_roles
from trivet.data.sentence_features import ContextValues
from trivet.data.sentences import split_sentences
from trivet.data.values import find_values

NOTHING = (
    "Sure!",
    "Of course.",
    "Hello there!",
    "Here is a summary of the passages:",
    "Let me know if you have any other questions.",
    "I hope this helps!",
    "Would you like me to draft a letter?",
    "Is there anything else that I can help with?",
    "I would be happy to help with that!",
    "Please feel free to reach out to me.",
    "---",
)
ABSTENTIONS = (
    "I don't know.",
    "The passages do not say when the mill was built.",
    "There is no information about the price in the provided context.",
    "I'm sorry, but I cannot answer this from the given documents.",
    "The context does not mention the owner.",
    "Unable to answer based on the given passages.",
    "Unfortunately, the documents do not contain the answer.",
    "There is no evidence of a link in these passages.",
    "The answer is not in the passages.",
    "The owner is not mentioned in the passages.",
    "There's no mention of the owner.",
    "There isn't enough information to answer.",
    "The passages say nothing about the owner.",
    "The given records do not show the price.",
    "The passages do not say, but I would be happy to help with something else.",
    "idk",
    "N/A",
    "[no answer]",
    "Cannot be determined.",
    "As an AI model, I can't tell.",
    "It is unclear who paid for it, because the necessary page is missing.",
    "The brochure's price list isn't part of the given documents.",
    "The text does not say who paid, nor does it name a price.",
    "Based on the passages, the fee is not mentioned.",
    "No owner is named.",
    "None of these passages give any advice on paint.",
    "Not in the text.",
)
CLAIMS = (
    "The mill was built in 1790.",
    "Sure, the mill was built in 1790.",
    "Would you like to hear that the mill won an award in 2024?",
    "Let me know if you need the mill, which was built of stone.",
    "The law does not mention a fine of 90 euros, it demands one.",
    "He did not know the owner.",
    "No, the shop is closed on Sundays.",
    "The drug is not safe during pregnancy.",
    "It does not have a pool.",
    "We cannot offer refunds.",
    "This treatment is not covered by insurance.",
    "There is no evidence of a link between them.",
    "No data is stored on the server.",
    "The passages do not mention who built the mill, but it was burnt down by soldiers.",
    "Here are the side effects: nausea, vomiting and hair loss.",
    "If you are pregnant, ask a doctor before use.",
    "I am happy to report that the bridge is open.",
    "Please feel free to smoke in the rooms.",
    "Don't hesitate to take a double dose.",
    "This material does not contain lead.",
    "The records do not show any payment after 2019.",
    "There is enough information about it in the brochure.",
    "The key is not in the drawer.",
    "The passages do not say who built the mill and it was burnt down.",
    "The passages do not say who built it (it was burnt down).",
    "I cannot say when it was built, since a flood took the mill in spring.",
    "None of the documents was signed by the mayor.",
    "This document does not include sales tax.",
    "The text does not mention the mayor, who was jailed for theft.",
    "Investigators comb the site of the crash: no new details found about its cause.",
    "The names of the victims were not disclosed.",
    "The suite, priced at four euros, sells well, but there is no information on its owner.",
)


@pytest.mark.parametrize(
    ("text", "role"),
    [
        *((text, "no_claim") for text in NOTHING),
        *((text, "abstention") for text in ABSTENTIONS),
        *((text, "claim") for text in CLAIMS),
    ],
)
def test_the_role_of_a_sentence(text: str, role: SentenceRole) -> None:
    assert role_of(text) == role


def test_a_denial_that_brings_news_is_a_claim() -> None:
    contexts = ContextValues(("The mill is old.",), "Who built the mill?", ("The mill is old.",))

    def role(text: str) -> SentenceRole:
        values = [contexts.find(value, (0,)) for value in find_values(text)]
        return role_of(text, values, contexts)

    assert role("The text does not say who built the mill.") == "abstention"
    assert role("The text does not say that Ilse Tamm built the mill.") == "claim"
    assert role("The text does not say who built the mill in 1812.") == "claim"
    assert role('The text does not say who built the "golden windmill".') == "claim"


def test_what_a_document_lacks_is_a_claim_unless_it_was_asked_for() -> None:
    asked = ContextValues((), "Does it cover flood damage?", ())
    text = "The documents do not cover flood damage."
    assert role_of(text) == "claim"
    assert role_of(text, (), asked) == "abstention"
    assert role_of("None.", (), ContextValues((), "How many rooms are there?", ())) == "claim"


def test_thoughts_fences_and_marks_of_formulas_are_a_frame() -> None:
    text = 'The mill has 3 rooms.\n</think>\n```json\n{"rooms": 4}\n```\n\\[\n\\boxed{4}\n\\]'
    roles = sentence_roles(text, split_sentences(text))
    frame = "no_claim"
    assert roles == (frame, frame, frame, "claim", frame, frame, "claim", frame)


def test_thoughts_without_an_end_are_a_frame_so_far() -> None:
    def roles(text: str) -> list[str]:
        return list(sentence_roles(text, split_sentences(text)))

    text = "Sure!\n<think>\nIt has 3 rooms. Or 4?"
    assert set(roles(text)) == {"no_claim"}
    assert roles(f"{text}\n</think>\nIt has 4 rooms.")[-1] == "claim"
    assert roles("Reasons stand after <think> marks. It has 4 rooms.") == ["claim", "claim"]


@pytest.mark.parametrize("marks", ["!", "---", "* "])
def test_marks_before_a_claim_take_linear_time(marks: str) -> None:
    # With quadratic time this would not end.
    assert role_of(marks * 300_000 + " the mill is old") == "claim"


def test_many_clauses_are_read_one_by_one() -> None:
    clause = "the passages do not say but "
    assert role_of(clause * 20_000 + "I don't know") == "abstention"
    assert role_of(clause * 20_000 + "the mill is old") == "claim"


def test_a_heading_claims_nothing_if_a_sentence_follows() -> None:
    text = "## Opening hours\nThe mill opens at nine.\n**Prices**\nA ticket costs 4 euros."
    roles = sentence_roles(text, split_sentences(text))
    assert roles == ("no_claim", "claim", "no_claim", "claim")
    alone = "**The mill is closed**"
    assert sentence_roles(alone, split_sentences(alone)) == ("claim",)


def test_the_head_of_a_table_claims_nothing() -> None:
    text = "| Thing | Year |\n|---|---|\n| mill | 1812 |"
    assert sentence_roles(text, split_sentences(text)) == ("no_claim", "no_claim", "claim")
