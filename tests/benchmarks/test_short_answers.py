"""The invented pairs of the benchmark: counts, one error in each short answer, the table."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from benchmarks import short_answers

COUNTS = {"number": 28, "date": 24, "name": 24, "unit": 12, "negation": 12}
FORMS = short_answers.PAIRS.with_name("answer_forms.jsonl")
FORM_COUNTS = {"short": 82, "value in another form": 48, "structured contexts": 44, "chat": 75}
MOST_CHANGED = 3  # words of an answer in which its copy differs


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


FILES = pytest.mark.parametrize(
    ("file", "counts"),
    [(short_answers.PAIRS, COUNTS), (FORMS, FORM_COUNTS)],
    ids=["short answers", "many forms"],
)


@FILES
def test_each_pair_differs_in_the_response_alone_and_a_short_one_in_a_few_words(
    file: Path, counts: dict[str, int]
) -> None:
    kinds = short_answers.read_pairs(file)
    assert {kind: len(made) for kind, made in kinds.items()} == counts
    for pair in (pair for made in kinds.values() for pair in made):
        assert pair.clean.question == pair.changed.question
        assert pair.clean.contexts == pair.changed.contexts
        assert pair.clean.response.strip() != pair.changed.response.strip()
        right, wrong = pair.clean.response.split(), pair.changed.response.split()
        match = difflib.SequenceMatcher(None, right, wrong, autojunk=False)
        edits = [code for code in match.get_opcodes() if code[0] != "equal"]
        changed = sum(max(b - a, d - c) for _, a, b, c, d in edits)
        if file == short_answers.PAIRS:
            assert 1 <= len(edits) <= 2 and changed <= MOST_CHANGED, (right, wrong)
        else:
            assert pair.group == "\n".join(pair.clean.contexts)


def test_half_of_the_wrong_values_stand_in_the_contexts() -> None:
    kinds = short_answers.read_pairs()
    for kind in ("number", "date", "name"):
        elsewhere = [
            words(pair.changed.response) - words(pair.clean.response)
            <= words(" ".join(pair.clean.contexts))
            for pair in kinds[kind]
        ]
        assert 0.4 <= sum(elsewhere) / len(elsewhere) <= 0.6, kind


def test_the_table_has_a_line_for_each_kind_and_one_for_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = FORMS.read_text(encoding="utf-8").splitlines(keepends=True)[::9]
    some = tmp_path / "some.jsonl"
    some.write_text("".join(lines), encoding="utf-8")
    counts = {kind: len(made) for kind, made in short_answers.read_pairs(some).items()}
    assert len(counts) > 1
    short_answers.main(["--pairs", str(some)])
    printed = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    found = [(line[1], int(line[2])) for line in printed]
    assert found == [*counts.items(), ("all", sum(counts.values()))]
