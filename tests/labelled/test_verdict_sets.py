"""HaluBench, FinQA and ELI5: columns, verdicts and groups, on small Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.data.examples import write_parquet
from trivet.errors import DataError
from trivet.labelled.sources import load_source
from trivet.labelled.verdict_sets import read_verdict_set
from trivet.records import Labels

FINQA = {"query": "How much?", "context": "It costs 4.", "llm_response": 4.0, "is_correct": 1}
ELI5 = {"user_input": "Why?", "reference": "Heat rises.", "response": "Warm air.", "target": 1}
HALUBENCH = {
    "question": "How hot is the kiln?",
    "passage": "A kiln reaches cone six.",
    "answer": "Cone six.",
    "label": "PASS",
    "id": "h1",
    "source_ds": "pottery",
}


@pytest.mark.parametrize(
    ("kind", "good", "wrong", "source"),
    [
        ("finqa", FINQA, {"is_correct": 0}, "finqa"),
        ("eli5", ELI5, {"target": 0}, "eli5"),
        ("halubench", HALUBENCH, {"label": " fail", "id": "h2"}, "halubench/pottery"),
    ],
)
def test_an_answer_is_supported_or_not(
    tmp_path: Path, kind: str, good: dict[str, Any], wrong: dict[str, Any], source: str
) -> None:
    write_parquet(tmp_path / "test-00000-of-00001.parquet", good, good | wrong)
    (right, other), report = load_source(f"{kind}:{tmp_path}", "test")
    texts = right.example
    assert [*map(str, list(good.values())[:3])] == [texts.question, *texts.contexts, texts.response]
    assert (right.labels, other.labels) == (Labels(adherent=True), Labels(adherent=False))
    assert right.group == other.group and texts.id != other.example.id
    assert (right.source, right.split, report.kept) == (source, "test", 2)


def test_rows_about_one_passage_share_a_group(tmp_path: Path) -> None:
    others = ({"passage": "A kiln reaches cone six.\n"}, {"passage": "Another.", "question": None})
    write_parquet(tmp_path / "test.parquet", HALUBENCH, *(HALUBENCH | row for row in others))
    examples, _ = read_verdict_set("halubench", str(tmp_path))
    groups = [example.group for example in examples]
    assert groups[0] == groups[1] != groups[2]
    assert examples[2].example.question == ""


@pytest.mark.parametrize(
    ("kind", "good", "others", "reason"),
    [
        ("finqa", FINQA, {"is_correct": 2}, "is_correct is neither 0 nor 1"),
        ("finqa", FINQA, {"llm_response": None}, "llm_response is empty"),
        ("halubench", HALUBENCH, {"source_ds": ""}, "source_ds is empty"),
        ("halubench", HALUBENCH, {"label": "MAYBE"}, "label is neither PASS nor FAIL"),
    ],
)
def test_a_row_that_cannot_be_used_is_counted(
    tmp_path: Path, kind: str, good: dict[str, Any], others: dict[str, Any], reason: str
) -> None:
    write_parquet(tmp_path / "test.parquet", good, good | others)
    examples, report = load_source(f"{kind}:{tmp_path}")
    assert (len(examples), report.dropped) == (1, {reason: 1})


def test_other_columns_are_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "test.parquet", ELI5)
    with pytest.raises(DataError, match="no column context, query, llm_response, is_correct"):
        load_source(f"finqa:{tmp_path}")


@pytest.mark.network
def test_the_published_set_is_read() -> None:
    examples, report = read_verdict_set("halubench", "halubench")
    assert len({example.source for example in examples}) == 6
    assert report.kept > 0.99 * report.rows
