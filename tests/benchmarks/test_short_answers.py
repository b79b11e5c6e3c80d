"""The short answers of the benchmark: their counts, one error in each, and the printed table."""

from __future__ import annotations

import difflib

import pytest

from benchmarks import short_answers
from benchmarks.twin_pairs import share_held


def test_each_pair_differs_in_one_place_of_the_response_alone() -> None:
    kinds = short_answers.read_pairs()
    assert set(kinds) == {"number", "date", "name", "unit", "negation"}
    for kind, made in kinds.items():
        assert len(made) >= 12, kind
        for pair in made:
            assert pair.clean.question == pair.changed.question
            assert pair.clean.contexts == pair.changed.contexts
            right, wrong = pair.clean.response.split(), pair.changed.response.split()
            match = difflib.SequenceMatcher(None, right, wrong, autojunk=False)
            edits = [code for code in match.get_opcodes() if code[0] != "equal"]
            assert 1 <= len(edits) <= 2, (kind, right, wrong)


def test_wrong_values_stand_in_the_contexts_and_beside_them() -> None:
    kinds = short_answers.read_pairs()
    pairs = kinds["number"] + kinds["date"]
    elsewhere = [pair for pair in pairs if share_held(pair.changed) >= share_held(pair.clean)]
    assert 0.3 <= len(elsewhere) / len(pairs) <= 0.7


def test_the_table_has_a_line_for_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    short_answers.main([])
    lines = capsys.readouterr().out.splitlines()[2:]
    kinds = [line.split(" | ")[1] for line in lines]
    assert kinds == [*short_answers.read_pairs(), "all"]
