"""Kinds of labelled sources, splits, and reports of dropped rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trivet.errors import DataError
from trivet.labelled.sources import check_source, load_own, load_source
from trivet.records import Span


def write(tmp_path: Path, splits: list[str | None], **others: object) -> str:
    path = tmp_path / "rows.jsonl"
    rows = [
        {
            "id": str(number),
            "question": "How hot?",
            "contexts": ["Cone six."],
            "response": "Cone six.",
            "group": f"kiln {number // 2}",
            "split": split,
            "labels": {"adherent": True},
            **others,
        }
        for number, split in enumerate(splits)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return f"jsonl:{path}"


def test_fit_and_dev_part_all_rows_but_the_publishers_test_rows_by_group(tmp_path: Path) -> None:
    spec = write(tmp_path, ["train", "train", "test", "test"] * 100)
    (fit, fit_report), (dev, dev_report) = load_source(spec, "fit"), load_source(spec, "dev")
    train, test = load_source(spec, "train")[0], load_source(spec, "test")[0]
    assert (len(train), len(test)) == (200, 200)
    assert {e.example.id for e in (*fit, *dev)} == {e.example.id for e in train}
    assert not {e.group for e in fit} & {e.group for e in dev}
    assert 10 < len(dev) < 60
    assert (fit_report.kept, fit_report.outside_split) == (len(fit), 400 - len(fit))
    assert dev_report.rows == dev_report.kept + dev_report.outside_split == 400


def test_a_sheet_is_read_as_by_trivet_test(tmp_path: Path) -> None:
    file = tmp_path / "sheet.csv"
    lines = ["question,context,response,label", "When?,In 1817.,In 1817.,right"]
    file.write_text("\n".join([*lines, "When?,In 1817.,In 1818.,wrong"]), encoding="utf-8")
    check_source(f"sheet:{file}")
    rows, report = load_source(f"sheet:{file}")
    assert [row.labels.adherent for row in rows] == [True, False]
    assert report.kept == 2
    with pytest.raises(DataError, match="no such file"):
        check_source(f"sheet:{tmp_path / 'other.csv'}")


def test_a_file_of_ones_own_is_json_lines_with_labels_or_a_sheet(tmp_path: Path) -> None:
    sheet = load_own(Path("examples/check_sheet.csv"), "key")
    assert [row.labels.adherent for row in sheet].count(True) == 18
    with pytest.raises(DataError, match="column 'label' is empty in all 30 rows"):
        load_own(Path("examples/check_sheet.csv"))
    plain = tmp_path / "plain.jsonl"
    row = {"question": "How hot?", "contexts": ["Cone six."], "response": "Cone six."}
    plain.write_text(json.dumps(row | {"label": "wrong", "mine": True}), encoding="utf-8")
    assert [load_own(plain, label)[0].labels.adherent for label in (None, "mine")] == [False, True]
    spans = Path(write(tmp_path, [None], labels={"unsupported": [[0, 4]]}).removeprefix("jsonl:"))
    assert load_own(spans)[0].labels.unsupported == (Span(0, 4),)


def test_the_publishers_split_by_name(tmp_path: Path) -> None:
    spec = write(tmp_path, ["train", None, "validation"])
    examples, report = load_source(spec, "validation")
    assert [example.example.id for example in examples] == ["2"]
    assert (report.rows, report.kept, report.outside_split) == (3, 1, 2)
    with pytest.raises(DataError, match="no split 'valid'; it has all, fit, dev, train, valid"):
        load_source(spec, "valid")


def test_the_hub_is_not_asked_whether_a_source_is_there(tmp_path: Path) -> None:
    for spec in ("ragbench:org/name", "ragtruth:ragtruth", f"eli5:{tmp_path}", "finqa:finqa"):
        check_source(spec)


def test_a_file_that_says_nothing_of_its_rows_is_refused(tmp_path: Path) -> None:
    spec = write(tmp_path, [None] * 3, labels={"unsupported": None})
    with pytest.raises(DataError, match=r"none of the 3 rows in split 'all' has a label"):
        load_source(spec)
    # A row of which something is known is enough.
    path = Path(spec.removeprefix("jsonl:"))
    known = path.read_text(encoding="utf-8").replace('"unsupported": null', '"relevant": []', 1)
    path.write_text(known, encoding="utf-8")
    assert len(load_source(spec)[0]) == 3


def test_a_file_without_a_usable_row_is_refused_with_the_reasons(tmp_path: Path) -> None:
    spec = write(tmp_path, [None] * 2, labels={"unsupported": [[0, 99]]})
    message = r"none of its 2 rows can be used: 2 x unsupported leaves its text .*line 1: \[0, 99\)"
    with pytest.raises(DataError, match=message):
        load_source(spec)


@pytest.mark.parametrize("split", ["train", "test", "fit", "dev"])
def test_a_file_that_puts_one_group_into_two_splits_is_refused(tmp_path: Path, split: str) -> None:
    spec = write(tmp_path, ["train", "test", "train", None])
    message = "1 groups are in more than one split, first 'kiln 0' in test, train"
    with pytest.raises(DataError, match=message):
        load_source(spec, split)
    examples, report = load_source(spec, "all")
    assert len(examples) == 4
    assert report.noted == {"groups that occur in several of the publisher's splits": 1}


def test_a_jsonl_file_needs_no_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write(tmp_path, ["train"])
    file = Path(spec.removeprefix("jsonl:"))
    monkeypatch.chdir(file.parent)
    assert load_source(file.name)[0] == load_source(spec)[0]
    with pytest.raises(DataError, match=r"no such file: nowhere\.jsonl\.xz"):
        load_source("nowhere.jsonl.xz")
