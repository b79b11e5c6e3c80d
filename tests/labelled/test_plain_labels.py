"""Labels of whole answers in columns of any file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trivet.errors import DataError
from trivet.labelled.plain_labels import PlainRows, read_label, read_plain

ROW = {"question": "What?", "contexts": ["The mill is old."], "response": "It is old."}


def write(path: Path, *rows: object) -> str:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def verdicts(plain_rows: PlainRows) -> list[bool | None]:
    return [example.labels.adherent for example in plain_rows.examples]


@pytest.mark.parametrize(
    ("supported", "unsupported"),
    [
        (True, False),
        (1, 0),
        (1.0, 0.0),
        ("1", "0"),
        ("true", "FALSE"),
        ("right", "wrong"),
        ("supported", "unsupported"),
        (" Supported ", "Unsupported"),
        ("correct", "incorrect"),
        ("faithful", "hallucinated"),
        ("yes", "no"),
        ("PASS", "FAIL"),
    ],
)
@pytest.mark.parametrize("column", ["adherent", "label", "Gold", "verdict of ours"])
def test_a_label_is_read_in_every_form(
    tmp_path: Path, supported: Any, unsupported: Any, column: str
) -> None:
    rows = [{**ROW, column: supported}, {**ROW, column: unsupported}, {**ROW, column: None}]
    file = write(tmp_path / "rows.jsonl", *rows)
    named = column == "verdict of ours"
    plain_rows = read_plain(file, column if named else None)
    assert verdicts(plain_rows) == [True, False]
    assert plain_rows.column.casefold() == column.casefold()
    assert sorted(verdict for _, verdict in plain_rows.readings) == [False, True]
    assert plain_rows.report.dropped == {f"no label in column {plain_rows.column!r}": 1}


@pytest.mark.parametrize("column", ["hallucinated", "is_unsupported", "Incorrect"])
def test_true_in_a_column_of_errors_is_unsupported(column: str) -> None:
    assert read_label(1, column) is False
    assert read_label("no", column) is True
    assert read_label("supported", column) is True
    assert read_label(1, "right_or_wrong") is True


def test_all_rows_are_read_unless_a_split_is_asked_for(tmp_path: Path) -> None:
    rows = [{**ROW, "label": 1, "group": str(n), "split": "ab"[n % 2]} for n in range(30)]
    file = write(tmp_path / "rows.jsonl", *rows)
    assert len(read_plain(file).examples) == 30
    half = read_plain(file, split="a")
    assert (len(half.examples), half.report.outside_split) == (15, 15)
    parts = [read_plain(file, split=name).report.kept for name in ("fit", "dev")]
    assert sum(parts) == 30 and min(parts) > 0
    with pytest.raises(DataError, match=r"has no split 'c'; it has all, fit, dev, a, b"):
        read_plain(file, split="c")


def test_rows_that_cannot_be_measured_are_counted_by_reason(tmp_path: Path) -> None:
    unread = {"question": "What?", "response": "It is old.", "label": 1}
    rows = [{**ROW, "label": 1}, ROW, {**ROW, "label": 0, "response": " "}, unread, "{", unread]
    plain_rows = read_plain(write(tmp_path / "rows.jsonl", *rows))
    assert (plain_rows.report.rows, plain_rows.report.kept, plain_rows.unreadable) == (6, 1, 2)
    assert plain_rows.report.dropped == {
        "no label in column 'label'": 2,
        "no response to judge": 1,
        "missing_field": 2,
    }
    assert plain_rows.report.places["missing_field"][0].startswith("line 4: has no contexts")


@pytest.mark.parametrize(
    ("rows", "label", "complaint"),
    [
        (
            [{"label": "maybe"}, {"label": 2}],
            None,
            r"neither .*: line 1 has 'maybe', line 2 has '2'",
        ),
        ([{"label": 0.7}], None, r"line 1 has '0.7'; write true or false, 1 or 0, right or wrong"),
        ([{"label": n} for n in range(2, 9)], None, r"line 3 has '4' and 4 more"),
        ([{}], None, r"looked for adherent, label, gold, .*; found question, contexts, response"),
        ([{"labels": {"unsupported": []}}], None, r"spans, .*; use --data jsonl:"),
        ([{"label": 1, "response": ""}], None, r"none of the 1 rows can be measured: 1 x no resp"),
    ],
)
def test_bad_labels_are_refused_by_place(
    tmp_path: Path, rows: list[dict[str, Any]], label: str | None, complaint: str
) -> None:
    file = write(tmp_path / "rows.jsonl", *({**ROW, **row} for row in rows))
    with pytest.raises(DataError, match=complaint):
        read_plain(file, label)
