"""The training rows of the project: complete, balanced, told by no words, apart from benchmarks."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import short_answers
from trivet.data.sentence_features import share_nowhere, words_of
from trivet.labelled.labelled_jsonl import read_jsonl
from trivet.measures.intervals import auroc
from trivet.records import LabelledExample, RagExample

SHARED_WORDS = 8  # in a row, that would show that two texts have one origin
Rows = dict[str, list[LabelledExample]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    found = {}
    for name in ("confusable_answers", "statements"):
        file = Path(__file__).parents[2] / "training_data" / f"{name}.jsonl.xz"
        found[name], report = read_jsonl(file)
        assert not report.dropped
    return found


def test_right_and_wrong_answers_are_as_many_and_wrong_words_are_marked(rows: Rows) -> None:
    known: dict[str, dict[tuple[str, object], list[bool | None]]] = {}
    for name, own in rows.items():
        known[name] = defaultdict(list)
        for row in own:
            asked = row.example.contexts if name == "statements" else row.example.question
            known[name][row.group, asked].append(row.labels.adherent)
            assert row.labels.unsupported is not None
            assert row.labels.adherent is (row.labels.unsupported == ())
    confusable, statements = known["confusable_answers"], known["statements"]
    assert all(found.count(True) * 2 == len(found) for found in confusable.values())
    assert len({group for group, _ in confusable}) == 448
    assert all(Counter(found) == {True: 4, False: 4} for found in statements.values())
    assert len(statements) == len({group for group, _ in statements}) >= 2000


def test_no_passage_is_in_two_groups(rows: Rows) -> None:
    groups: dict[str, set[str]] = defaultdict(set)
    for row in rows["confusable_answers"]:
        for context in row.example.contexts:
            groups[context].add(row.group)
    assert max(len(found) for found in groups.values()) == 1


def phrases(examples: Iterable[RagExample]) -> set[tuple[str, ...]]:
    texts = {text for each in examples for text in (each.question, each.response, *each.contexts)}
    found = set()
    for text in texts:
        words = re.findall(r"\w+", text.lower())
        starts = range(len(words) - SHARED_WORDS + 1)
        found |= {tuple(words[at : at + SHARED_WORDS]) for at in starts}
    return found


@pytest.mark.parametrize("file", ["short_answers.jsonl", "answer_forms.jsonl"])
def test_nothing_is_shared_with_the_pairs_of_the_benchmark(rows: Rows, file: str) -> None:
    trained = phrases(row.example for row in rows["confusable_answers"])
    read = short_answers.read_pairs(short_answers.PAIRS.with_name(file))
    made = (pair for pairs in read.values() for pair in pairs)
    measured = phrases(example for pair in made for example in (pair.clean, pair.changed))
    assert len(measured) > 1000 and not measured & trained


def test_counting_words_tells_nothing_of_statements(rows: Rows) -> None:
    texts = [row.example for row in rows["statements"]]
    shares = np.array([share_nowhere(each.response, words_of(each.contexts)) for each in texts])
    wrong = np.array([row.labels.adherent is False for row in rows["statements"]])
    assert 0.45 < float(auroc(shares, wrong)(np.ones((1, len(wrong))))[0]) <= 0.55
