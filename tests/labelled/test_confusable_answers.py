"""The training rows of the project: complete, balanced, and apart from the benchmark's pairs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks import short_answers
from trivet.labelled.labelled_jsonl import read_jsonl
from trivet.records import LabelledExample, RagExample

ROWS = Path(__file__).parents[2] / "training_data" / "confusable_answers.jsonl.xz"
SHARED_WORDS = 8  # in a row, that would show that two texts have one origin


@pytest.fixture(scope="module")
def rows() -> list[LabelledExample]:
    examples, report = read_jsonl(ROWS)
    assert not report.dropped
    return examples


def phrases(examples: Iterable[RagExample]) -> set[tuple[str, ...]]:
    texts = {text for each in examples for text in (each.question, each.response, *each.contexts)}
    found = set()
    for text in texts:
        words = re.findall(r"\w+", text.lower())
        starts = range(len(words) - SHARED_WORDS + 1)
        found |= {tuple(words[at : at + SHARED_WORDS]) for at in starts}
    return found


def test_each_question_has_as_many_right_answers_as_wrong_ones_with_marked_words(
    rows: list[LabelledExample],
) -> None:
    rights: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for row in rows:
        assert row.labels.unsupported is not None
        assert row.labels.adherent is (row.labels.unsupported == ())
        rights[row.group, row.example.question].append(row.labels.adherent)
    assert all(sum(known) * 2 == len(known) for known in rights.values())
    assert len({group for group, _ in rights}) == 448


def test_no_passage_is_in_two_groups(rows: list[LabelledExample]) -> None:
    groups: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for context in row.example.contexts:
            groups[context].add(row.group)
    assert max(len(found) for found in groups.values()) == 1


@pytest.mark.parametrize("file", ["short_answers.jsonl", "answer_forms.jsonl"])
def test_nothing_is_shared_with_the_pairs_of_the_benchmark(
    rows: list[LabelledExample], file: str
) -> None:
    trained = phrases(row.example for row in rows)
    read = short_answers.read_pairs(short_answers.PAIRS.with_name(file))
    made = (pair for pairs in read.values() for pair in pairs)
    measured = phrases(example for pair in made for example in (pair.clean, pair.changed))
    assert len(measured) > 1000 and not measured & trained
