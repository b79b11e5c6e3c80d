"""Scores that exist already."""

from __future__ import annotations

from pathlib import Path

import pytest

from research.compare.systems import Setup, load_system
from trivet.errors import DataError, ExampleError
from trivet.records import LabelledExample, Labels, PublishedScores, RagExample

ROWS = [
    LabelledExample(
        RagExample("", ("c",), "It is red.", f"q{n}"),
        Labels(adherent=True),
        source="toy",
        group="g",
        published=(PublishedScores("GPT-3.5", score, None, None),),
    )
    for n, score in enumerate((1.0, 0.0, None))
]


def test_published_scores_are_those_of_the_rows() -> None:
    system = load_system("stored:GPT-3.5", Setup(ROWS))
    flags = [system.score(row.example).hallucinated for row in ROWS[:2]]
    assert (flags, system.timed) == ([False, True], False)
    with pytest.raises(ExampleError, match="holds no score"):
        system.score(ROWS[2].example)


def test_a_file_is_read_by_id_and_an_empty_score_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "tool.csv"
    file.write_text("id,risk\nq2,\nq1,0.25\nq0,1\n", encoding="utf-8")
    system = load_system(f"stored:{file}:-risk", Setup(ROWS))
    scores = [system.score(row.example) for row in ROWS]
    assert [score.faithfulness for score in scores] == [0.0, 0.75, None]
    assert scores[2].failed == "missing"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,risk\nq0,1\nq1,1\n", r"misses 1 of 3 rows \['q2'\]"),
        ("id,risk\nq0,1\nq0,1\n", "id q0 occurs twice"),
        ("id,risk\nq0,7\n", "risk is '7', not a number in"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "tool.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load_system(f"stored:{file}:risk", Setup(ROWS))
