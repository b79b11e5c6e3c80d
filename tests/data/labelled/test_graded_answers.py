"""FinQA and ELI5: columns, grades and groups, on small Parquet files of the publishers' shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.data.examples import write_parquet
from trivet.data.labelled.sources import load_source
from trivet.errors import DataError
from trivet.records import Labels

FINQA = {"query": "How much?", "context": "It costs 4.", "llm_response": 4.0, "is_correct": 1}
ELI5 = {"user_input": "Why?", "reference": "Heat rises.", "response": "Warm air.", "target": 1}


@pytest.mark.parametrize(
    ("kind", "good", "grade"), [("finqa", FINQA, "is_correct"), ("eli5", ELI5, "target")]
)
def test_a_right_answer_is_supported_and_a_wrong_one_is_not(
    tmp_path: Path, kind: str, good: dict[str, Any], grade: str
) -> None:
    write_parquet(tmp_path / "test-00000-of-00001.parquet", good, good | {grade: 0})
    (right, wrong), report = load_source(f"{kind}:{tmp_path}", "test")
    assert [*map(str, (good[name] for name in list(good)[:3]))] == [
        right.example.question,
        *right.example.contexts,
        right.example.response,
    ]
    assert (right.labels, wrong.labels) == (Labels(adherent=True), Labels(adherent=False))
    assert right.group == wrong.group and right.example.id != wrong.example.id
    assert (right.source, report.kept) == (kind, 2)


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"is_correct": None}, "is_correct is neither 0 nor 1"),
        ({"is_correct": 2}, "is_correct is neither 0 nor 1"),
        ({"llm_response": None}, "the context or the response holds no text"),
        ({"context": " "}, "the context or the response holds no text"),
    ],
)
def test_a_row_that_cannot_be_used_is_counted(
    tmp_path: Path, others: dict[str, Any], reason: str
) -> None:
    write_parquet(tmp_path / "test.parquet", FINQA, FINQA | others)
    examples, report = load_source(f"finqa:{tmp_path}")
    assert (len(examples), report.dropped) == (1, {reason: 1})


def test_other_columns_are_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "test.parquet", ELI5)
    with pytest.raises(DataError, match="no column query, context, llm_response, is_correct"):
        load_source(f"finqa:{tmp_path}")
