"""The training rows of the project: complete, balanced, and apart from the benchmark's pairs."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from benchmarks import short_answers
from trivet.data.labelled.labelled_jsonl import read_jsonl
from trivet.records import LabelledExample, RagExample

ROWS = Path(__file__).parents[3] / "training_data" / "confusable_answers.jsonl.xz"
SHARED_WORDS = 8  # in a row, that would show that two texts have one origin


def read() -> list[LabelledExample]:
    examples, report = read_jsonl(ROWS)
    assert not report.dropped
    return examples


def phrases(example: RagExample) -> set[tuple[str, ...]]:
    found = set()
    for text in (example.question, example.response, *example.contexts):
        words = re.findall(r"\w+", text.lower())
        found |= {tuple(words[at : at + SHARED_WORDS]) for at in range(len(words))}
    return {phrase for phrase in found if len(phrase) == SHARED_WORDS}


def test_each_question_has_as_many_right_answers_as_wrong_ones_with_marked_words() -> None:
    rights: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for row in read():
        assert row.labels.unsupported is not None
        assert row.labels.adherent is (row.labels.unsupported == ())
        rights[row.group, row.example.question].append(row.labels.adherent)
    assert all(sum(known) * 2 == len(known) for known in rights.values())
    assert len({group for group, _ in rights}) == 448


def test_no_passage_is_in_two_groups() -> None:
    groups: dict[str, set[str]] = defaultdict(set)
    for row in read():
        for context in row.example.contexts:
            groups[context].add(row.group)
    assert max(len(found) for found in groups.values()) == 1


def test_nothing_is_shared_with_the_pairs_of_the_benchmark() -> None:
    trained = set().union(*(phrases(row.example) for row in read()))
    for pair in (pair for pairs in short_answers.read_pairs().values() for pair in pairs):
        shared = (phrases(pair.clean) | phrases(pair.changed)) & trained
        assert not shared, shared
