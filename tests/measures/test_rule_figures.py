"""Figures of the rule of choosing that are not AUROCs, on rankings and pairs made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.measures.verdicts import CONTEXT, SENTENCES, verdict
from trivet.measures.choosing import COUNTING, Pair, SetChange
from trivet.measures.predictions import Prediction
from trivet.measures.relevance_ranking import Ranking, plain_methods
from trivet.measures.rule_figures import RuleFigures, measure_rule
from trivet.measures.rule_sets import ANSWERS, RANKED, TOPICS
from trivet.records import (
    ContextSentence,
    ContextSpan,
    ContextVerdict,
    LabelledExample,
    Labels,
    RagExample,
)

OWLS = (ContextSpan(0, *SENTENCES[1]),)


def answer(
    faithfulness: float,
    adherent: bool,
    response: str = "Owls sleep.",
    group: str = "g",
    generator: str | None = None,
) -> Prediction:
    texts = RagExample("q", (CONTEXT,), response)
    labels = Labels(adherent=adherent, relevant=OWLS)
    example = LabelledExample(texts, labels, "s", group, generator)
    return Prediction(example, verdict(faithfulness))


def topic(*relevance: float) -> Prediction:
    """Return a question of several contexts, of which the first answers it."""
    texts = RagExample("q", tuple(f"Owl {n}." for n in range(len(relevance))), "")
    contexts = tuple(
        ContextVerdict(value, None, (ContextSentence(0, 6, "Owl 0.", value, None),))
        for value in relevance
    )
    labels = Labels(relevant=(ContextSpan(0, 0, 6),))
    example = LabelledExample(texts, labels, "topics", f"document of {relevance}")
    return Prediction(example, replace(verdict(), contexts=contexts))


ROWS = [answer(0.9, True, group="1"), answer(0.1, False, group="2")]


def measured(**pairs: Pair) -> RuleFigures:
    """Return the figures where all sets but some are of two plain rows."""
    names = (*ANSWERS, *RANKED.values())
    sets: dict[str, Pair] = dict.fromkeys(names, (ROWS, ROWS))
    sets[TOPICS] = ([topic(0.9, 0.1)], [topic(0.9, 0.1)])
    return measure_rule(sets | pairs, {})


def change(changes: Sequence[SetChange], name: str, measure: str) -> SetChange:
    (change,) = (change for change in changes if (change.name, change.measure) == (name, measure))
    return change


def values(change: SetChange) -> tuple[float | None, float | None]:
    return change.first.value, change.second.value


def test_a_pair_is_of_one_document_and_shares_contexts_or_response() -> None:
    rows = [
        answer(0.9, True, "Owls are silent.", "1"),
        answer(0.4, False, "Owls are loud.", "1"),
        answer(0.4, True, "Owls are silent.", "2"),
        answer(0.4, False, "Owls are loud.", "2"),
        answer(0.1, True, "Owls are silent.", "3"),  # without a partner
        answer(0.9, False, "Owls are loud.", "4"),
    ]
    other = [replace(row, evaluation=verdict(0.5)) for row in rows]
    pairs = change(measured(**{"other names": (other, rows)}).shown, "other names", "pairs")
    assert pairs.n == 2
    assert values(pairs) == (0.5, 0.75)  # one in order, one equal
    assert pairs.plain[COUNTING].value == 1


def test_open_generators_are_measured_alone() -> None:
    rows = [
        answer(0.1, False, group="1", generator="llama-2-7b-chat"),
        answer(0.9, True, group="2", generator="llama-2-7b-chat"),
        answer(0.9, False, group="3", generator="gpt-4-0613"),
    ]
    shown = measured(Summary=(rows, rows)).shown
    assert values(change(shown, "Summary", "F1")) == pytest.approx((2 / 3, 2 / 3))
    assert values(change(shown, "Summary, open", "F1")) == (1, 1)
    assert change(shown, "Summary, open", "AUROC").n == 2


@pytest.mark.parametrize(
    ("scores", "precision"),
    [
        ((0.9, 0.1, 0.8), 1.0),
        ((0.9, 0.8, 0.1), (1 + 2 / 3) / 2),
        ((0.2, 0.9, 0.1), (1 / 2 + 2 / 3) / 2),
    ],
)
def test_sentences_are_ranked_by_average_precision(
    scores: tuple[float, ...], precision: float
) -> None:
    ranking = Ranking("q", ("a", "b", "c"), np.array([True, False, True]), np.array(scores))
    assert ranking.quality("sentences", ranking.scores) == pytest.approx(precision)


def test_the_first_of_equal_contexts_counts_in_part() -> None:
    before = [topic(0.5, 0.5, 0.1), topic(0.1, 0.9)]
    after = [topic(0.5, 0.4, 0.1), topic(0.1, 0.9)]
    before = [
        replace(row, example=changed.example) for row, changed in zip(before, after, strict=True)
    ]
    first = change(measured(topics=(before, after)).relevance, TOPICS, "top-1")
    assert values(first) == (0.25, 0.5)


def test_relevance_that_says_each_sets_mean_is_level_with_it() -> None:
    rows = [
        replace(
            row,
            example=replace(row.example, labels=Labels(adherent=True, relevance=truth)),
            evaluation=verdict(relevance=0.4),
        )
        for row, truth in zip(ROWS, (0.2, 0.6), strict=True)
    ]
    errors = change(measured(RAGBench=(rows, rows)).relevance, "RAGBench", "1 - RMSE")
    assert values(errors) == pytest.approx((0.8, 0.8))
    assert errors.plain["constant"].value == pytest.approx(0.8)


def test_answers_and_relevance_decide_each_for_itself() -> None:
    wrong = [replace(row, evaluation=verdict(0.5)) for row in ROWS]
    better = measured(QA=(wrong, ROWS))
    assert not better.kept()  # relevance does not rise
    unsure = [replace(topic(0.1, 0.9), example=topic(0.9, 0.1).example)]
    assert measured(QA=(wrong, ROWS), topics=(unsure, [topic(0.9, 0.1)])).kept()


def test_bm25_ranks_the_sentence_with_the_rare_word_first() -> None:
    pytest.importorskip("bm25s")
    texts = ("The owl is a bird.", "The owl sleeps by day.", "The fox is red.")
    ranked = [
        Ranking("When does the owl sleep, by day?", texts, np.zeros(3, dtype=bool), np.zeros(3)),
        Ranking("", ("The end.",), np.zeros(1, dtype=bool), np.zeros(1)),
    ]
    first, second = plain_methods()["BM25"](ranked)
    assert first.argmax() == 1
    assert second.tolist() == [0.0]
