"""HaluBench: verdicts, sources and groups, on small parquet files of the publishers' shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.data.examples import write_parquet
from trivet.data.labelled.halubench import read_halubench
from trivet.data.labelled.source_report import SourceReport
from trivet.errors import DataError
from trivet.records import LabelledExample, Labels


def row(**others: Any) -> dict[str, Any]:
    plain = {
        "id": "h1",
        "passage": "A kiln reaches cone six.",
        "question": "How hot is the kiln?",
        "answer": "Cone six.",
        "label": "PASS",
        "source_ds": "pottery",
        "score": 1,
    }
    return plain | others


def read(tmp_path: Path, *rows: dict[str, Any]) -> tuple[list[LabelledExample], SourceReport]:
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", *rows)
    return read_halubench(str(tmp_path))


def test_a_row_is_a_passage_an_answer_and_a_verdict(tmp_path: Path) -> None:
    other = row(id=None, label=" fail", source_ds="weaving", question=None)
    (passed, failed), report = read(tmp_path, row(), other)
    texts = passed.example
    assert (texts.question, texts.response) == ("How hot is the kiln?", "Cone six.")
    assert texts.contexts == ("A kiln reaches cone six.",)
    assert (passed.labels, failed.labels) == (Labels(adherent=True), Labels(adherent=False))
    assert (passed.source, failed.source) == ("halubench/pottery", "halubench/weaving")
    assert (texts.id, failed.example.id, failed.example.question) == ("h1", "row 2", "")
    assert (passed.split, report.rows, report.kept, report.dropped) == ("test", 2, 2, {})


def test_rows_about_one_passage_share_a_group(tmp_path: Path) -> None:
    examples, _ = read(
        tmp_path,
        row(),
        row(id="h2", passage="A kiln reaches cone six.\n", answer="Hot.", label="FAIL"),
        row(id="h3", passage="Another one."),
    )
    groups = [example.group for example in examples]
    assert groups[0] == groups[1] != groups[2]
    assert groups[0].startswith("halubench/")


@pytest.mark.parametrize(
    ("others", "reason", "place"),
    [
        ({"passage": " "}, "passage holds no text", "h2"),
        ({"answer": None}, "answer holds no text", "h2"),
        ({"source_ds": ""}, "source_ds holds no text", "h2"),
        ({"label": "MAYBE"}, "label is neither PASS nor FAIL", "h2: 'MAYBE'"),
    ],
)
def test_unusable_rows(tmp_path: Path, others: dict[str, Any], reason: str, place: str) -> None:
    examples, report = read(tmp_path, row(), row(id="h2", **others))
    assert len(examples) == 1
    assert (report.rows, report.kept, report.dropped) == (2, 1, {reason: 1})
    assert report.places == {reason: [place]}


def test_a_file_of_another_shape_is_refused(tmp_path: Path) -> None:
    other = {key: value for key, value in row().items() if key not in ("passage", "label")}
    with pytest.raises(DataError, match=r"has no column passage, label; a row of HaluBench has"):
        read(tmp_path, other)


@pytest.mark.network
def test_the_published_set_is_read() -> None:
    examples, report = read_halubench("halubench")
    assert len({example.source for example in examples}) == 6
    assert report.kept > 0.99 * report.rows
