"""Equal inputs get equal verdicts: copies of passages and their order change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trivet import Evaluator

QUESTION = "When was the mill built?"
RESPONSE = "The mill was built in 1812 by Ilse Tamm. Its wheel is made of oak."
FEW = (
    "The mill was built in 1790.",
    "Ilse Tamm ran the mill. She sold bread.",
    "The wheel is made of oak.",
)
MANY = (*FEW, *(f"House {n} has {n + 3} rooms and a garden by the lake. " * 12 for n in range(5)))
SCORES = ("faithfulness", "relevance", "utilization", "completeness", "supported_share")


def scores(judge: Evaluator, contexts: list[str]) -> dict[Any, float | None]:
    """Return the numbers of a verdict: the scores, and those of each sentence and passage."""
    verdict = judge.evaluate(QUESTION, contexts, RESPONSE)
    numbers: dict[Any, float | None] = {name: getattr(verdict, name) for name in SCORES}
    numbers |= {("sentence", s.start): s.support for s in verdict.sentences}
    numbers |= {("span", s.start, s.end): s.probability for s in verdict.unsupported}
    for text, context in zip(contexts, verdict.contexts, strict=True):
        relevance, used = context.relevance, context.utilization
        assert numbers.setdefault(text, relevance) == relevance, "copies have one relevance"
        assert numbers.setdefault((text, "used"), used) == used
        assert "".join(s.text for s in context.sentences)
    return numbers


@pytest.mark.parametrize("passages", [FEW, MANY], ids=["one window", "several windows"])
def test_copies_and_order_of_passages_change_nothing(
    embedded: Evaluator, passages: tuple[str, ...]
) -> None:
    expected = scores(embedded, list(passages))

    @settings(max_examples=8, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        copies = [*passages, *data.draw(st.lists(st.sampled_from(passages), max_size=20))]
        shown = data.draw(st.permutations(copies))
        assert scores(embedded, shown) == pytest.approx(expected, abs=1e-6)

    check()


def test_a_mark_may_cite_any_copy_of_its_source(embedded: Evaluator) -> None:
    verdict = embedded.evaluate(QUESTION, [FEW[1], FEW[0], FEW[0]], f"{FEW[0][:-1]} [3].")
    assert verdict.citations is not None
    assert [(mark.context, mark.supported) for mark in verdict.citations.marks] == [(2, True)]
