"""Rows with common documents are in one group, and a split by group is stable."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.labelled.grouping import (
    GENERIC,
    Leaks,
    drop_leaks,
    group_by_documents,
    in_part,
    shares_text,
    text_digests,
)
from trivet.records import LabelledExample, Labels, RagExample


def test_same_question_or_shared_document_is_one_group() -> None:
    questions = ["why", "why ", "how", "where", "who"]
    names, divided = group_by_documents(questions, [["a"], ["b"], ["b", "c"], ["d"], []], 10)
    first, second, third, fourth, fifth = names
    assert first == second == third
    assert len({first, fourth, fifth}) == 3
    assert divided == 0


def test_a_document_shared_by_all_does_not_make_one_group_of_all() -> None:
    questions = [f"question {n // 2}" for n in range(20)]
    documents = [["everywhere", f"page {n // 4}"] for n in range(20)]
    names, divided = group_by_documents(questions, documents, largest=4)
    assert len(set(names)) == 5
    assert all(names[n] == names[n - n % 4] for n in range(20))
    assert divided == 1
    assert len(set(group_by_documents(["why"] * 5, [[]] * 5, largest=1)[0])) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from("pqrstuv"), max_size=3)),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 8),
    st.randoms(use_true_random=False),
)
def test_groups_do_not_depend_on_the_order_of_rows(
    rows: list[tuple[str, list[str]]], largest: int, shuffler: random.Random
) -> None:
    def names(some: list[tuple[str, list[str]]]) -> dict[str, str]:
        groups, _ = group_by_documents([q for q, _ in some], [d for _, d in some], largest)
        return {question: name for (question, _), name in zip(some, groups, strict=True)}

    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    assert names(shuffled) == names(rows)


def test_our_dev_split_is_frozen_and_near_its_share() -> None:
    groups = [f"group {n}" for n in range(2000)]
    # A change here moves rows between training and dev, and figures cannot be compared any more.
    assert [n for n in range(30) if in_part(groups[n])] == [0, 5, 10, 16, 23]
    assert 0.12 < sum(map(in_part, groups)) / 2000 < 0.18


KILN = "The kiln was fired in May of 1911."
POTTERY = "Bowls are glazed before the second firing."
CLAY = "Clay from the river bank is soft and red."


def row(group: str, question: str, *contexts: str, source: str = "s") -> LabelledExample:
    example = RagExample(question, contexts, "An answer.", id=f"{group} {question}")
    return LabelledExample(example, Labels(adherent=True), source, group)


TEST = [row("t1", "When was the kiln fired?", KILN), row("t2", "Is it glazed?", POTTERY)]


@pytest.mark.parametrize(
    ("trained", "leaks"),
    [
        (row("t1", "Who fired it?", CLAY), Leaks(1, 1, 0, 0)),
        (row("t1", "Who fired it?", CLAY, source="other"), Leaks()),  # groups are per source
        (row("a", "Who fired it?", CLAY, "the KILN was fired -\nin May of 1911"), Leaks(1, 0, 1)),
        (row("a", "when was the kiln fired", CLAY), Leaks(1, 0, 0, 1)),
        (row("t1", "When was the kiln fired?", KILN), Leaks(1, 1, 0, 0)),  # counted once
        (row("a", "Who fired it?", CLAY), Leaks()),
        (row("a", "", CLAY), Leaks()),
    ],
)
def test_a_group_is_left_out_for_its_first_reason(trained: LabelledExample, leaks: Leaks) -> None:
    other = row("b", "How red is it?", CLAY)
    kept, counted = drop_leaks([trained, other], [*TEST, row("t3", "", POTTERY)])
    assert counted == leaks
    assert kept == ([other] if leaks.groups else [trained, other])


def test_all_rows_of_a_group_go() -> None:
    rows = [row("a", "Who?", KILN), row("a", "What else?", CLAY), row("b", "What else, b?", CLAY)]
    kept, leaks = drop_leaks(rows, TEST)
    assert kept == rows[2:]
    assert (leaks.rows, leaks.groups) == (2, 1)


def test_short_passages_and_generic_questions_do_not_identify_a_row() -> None:
    ask = "Highlight the governing law."
    contracts = [row(f"c{n}", ask, f"The contract of party number {n}.") for n in range(GENERIC)]
    test = [row("t", ask, "Contract of a wholly different kind.", "Table 3")]
    assert drop_leaks(contracts, test) == (contracts, Leaks())
    kept, leaks = drop_leaks(contracts[:1], test)  # two passages: a question like any other
    assert (kept, leaks.question_groups) == ([], 1)
    assert drop_leaks([row("x", "Which?", "Table 3")], test)[1] == Leaks()
    assert not shares_text(row("x", ask, "Table 3"), text_digests([*contracts, *test]))
