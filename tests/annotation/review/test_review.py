"""A review: its order, what it writes, how it continues, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.annotation.review.conftest import LABELS, disputed, lines, row_of
from trivet.annotation.review.marks import Marks, Sheet
from trivet.annotation.review.review import Review, measure_uncertainty, order, read_rows
from trivet.annotation.review.reviewed_file import ReviewedFile
from trivet.batch.output import RunChangedError
from trivet.errors import DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.labelled_jsonl import read_jsonl

ALL_SUPPORTED = frozenset[int]()


def marks_of(review: Review, place: int) -> Marks:
    labelled, _ = review.current(place)
    return Sheet(labelled.example).marks(labelled.labels)


def test_the_rows_with_the_least_agreement_come_first(review: Review) -> None:
    assert [row.raw["id"] for row in review.rows] == ["d", "b", "a", "c"]


def test_the_least_sure_come_after_the_disputed(labelled: Path) -> None:
    rows = read_rows(labelled)
    assert [rows[n].raw["id"] for n in order(rows, [0.1, 0.0, 0.9, 0.2])] == ["d", "b", "c", "a"]


def test_an_accepted_row_is_the_same_row_with_who_and_when(review: Review, out: Path) -> None:
    review.save(2, "", marks_of(review, 2))
    (row,) = lines(out)
    about = row.pop("review")
    assert (about["by"], about["changed"]) == ("Ada", [])
    assert about["at"].endswith("+00:00")
    assert row == row_of("a", labels=LABELS | {"adherent": False})
    assert review.left() == [0, 1, 3]


def test_a_corrected_row_is_labelled_jsonl_with_the_weight_of_a_decision(
    review: Review, out: Path
) -> None:
    review.save(0, "", replace(marks_of(review, 0), unsupported=ALL_SUPPORTED))
    (row,) = lines(out)
    assert row["labels"] == LABELS | {"unsupported": [], "adherent": True}
    assert (row["weight"], row["review"]["changed"]) == (1.0, ["unsupported"])
    assert row["annotation"] == disputed(0.0)["annotation"]
    (example,), report = read_jsonl(out)
    assert (example.labels.adherent, report.dropped) == (True, {})


def test_a_row_that_is_reviewed_again_is_replaced_in_its_place(review: Review, out: Path) -> None:
    for place in (0, 1):
        review.save(place, "", marks_of(review, place))
    seen = lines(out)[0]["review"]["at"]
    review.save(0, seen, replace(marks_of(review, 0), utilized=None))
    review.save(2, "", marks_of(review, 2))
    assert [row["id"] for row in lines(out)] == ["d", "b", "a"]
    assert "utilized" not in lines(out)[0]["labels"]
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(
        ["labelled.jsonl", out.name]
    )


def test_a_review_continues_where_it_ended(labelled: Path, out: Path) -> None:
    rows = read_rows(labelled)
    with ReviewedFile(out) as file:
        Review(labelled, rows, file, "Ada").save(3, "", Marks(None, None, None))
    out.write_bytes(out.read_bytes() + b'{"id": "c", "que')  # the machine lost power in a write
    with ReviewedFile(out) as file:
        review = Review(labelled, rows, file, "Ben")
        assert review.left() == [0, 1, 2]
        about = review.current(3)[1]
        assert about is not None
        assert about["by"] == "Ada"
        review.save(0, "", marks_of(review, 0))
    assert [row["id"] for row in lines(out)] == ["d", "a"]


def test_what_was_accepted_survives_a_kill(labelled: Path, out: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from trivet.annotation.review.review import *\n"
        "from trivet.annotation.review.reviewed_file import ReviewedFile\n"
        "file = Path(sys.argv[1]); out = ReviewedFile(Path(sys.argv[2]))\n"
        "review = Review(file, read_rows(file), out, 'Ada')\n"
        "for place in range(3): review.save(place, '', Marks(None, None, None))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, labelled, out], check=False)
    assert done.returncode == -signal.SIGKILL
    with ReviewedFile(out) as file:
        assert Review(labelled, read_rows(labelled), file, "Ada").left() == [3]


def test_a_window_that_has_not_seen_the_last_review_saves_nothing(
    review: Review, out: Path
) -> None:
    review.save(0, "", marks_of(review, 0))
    before = out.read_bytes()
    with pytest.raises(RunChangedError, match="was reviewed in another window"):
        review.save(0, "", Marks(None, None, None))
    assert out.read_bytes() == before


@pytest.mark.parametrize("which", ["labelled.jsonl", "labelled.reviewed.jsonl"])
@pytest.mark.parametrize("change", ["append", "remove"])
def test_a_file_that_another_program_changed_is_not_written(
    review: Review, out: Path, which: str, change: str
) -> None:
    review.save(0, "", marks_of(review, 0))
    path = out.with_name(which)
    if change == "append":
        path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    else:
        path.unlink()
    with pytest.raises(RunChangedError, match=f"{which}: another program changed it; nothing was"):
        review.save(1, "", marks_of(review, 1))
    assert review.left() == [1, 2, 3]


@pytest.mark.parametrize(
    "text", ["{}\n", "[1]\n", "no JSON\n", json.dumps(row_of("a")) + "\n"], ids=str
)
def test_an_out_file_that_is_no_review_is_left_alone(out: Path, text: str) -> None:
    out.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="line 1: no reviewed row; choose another --out"):
        ReviewedFile(out)
    assert out.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(row_of("a", labels={})), "none of its 1 rows has a label to review; trivet"),
        ('{"contexts": 1}', "none of its 1 rows can be used"),
        ("", "none of its 0 rows can be used"),
    ],
)
def test_a_file_without_labels_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_rows(path)


def test_equal_rows_are_reviewed_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{json.dumps(row_of('a'))}\n" * 2, encoding="utf-8")
    assert len(read_rows(path)) == 1


def test_a_judge_is_less_sure_the_nearer_to_its_threshold(
    tiny_bundle: Path, labelled: Path
) -> None:
    evaluator = Evaluator(tiny_bundle)
    rows = [row.labelled for row in read_rows(labelled)]
    bare = [replace(row, example=replace(row.example, response="")) for row in rows]
    doubts = list(measure_uncertainty(evaluator, [*rows, *bare]))
    assert all(0 <= doubt <= 1 for doubt in doubts)
    (verdict,) = evaluator.evaluate_many([rows[0].example])
    whole = verdict.faithfulness  # type: ignore[union-attr]
    assert whole is not None
    room = 0.3 if whole > 0.7 else 0.7
    assert doubts[0] == pytest.approx(1 - abs(whole - 0.7) / room)
