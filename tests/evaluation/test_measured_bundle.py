"""Result files of `trivet test`: odd names of sources, unwritable files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trivet.errors import DataError
from trivet.evaluation.measured_bundle import MeasuredBundle, check_files, write_measures
from trivet.labelled.source_report import SourceReport
from trivet.measures.figures import Figure


def test_a_source_name_with_a_surrogate_is_written(tmp_path: Path) -> None:
    source = "odd \ud800 name"
    figure = Figure("hallucination_auroc", source, 0.5, None, None, 2, 1, 2, 0)
    report = SourceReport("jsonl:rows", rows=2, kept=2)
    measured = MeasuredBundle([], [figure], report, {"bundle": "tiny"}, None)
    files = [tmp_path / name for name in ("f.json", "f.md", "f.html")]
    write_measures(measured, *files)
    (written,) = json.loads(files[0].read_text(encoding="utf-8"))["figures"]
    assert written["source"] == source
    assert "odd \\ud800 name" in files[1].read_text(encoding="utf-8")
    assert "odd [U+D800] name" in files[2].read_text(encoding="utf-8")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    check_files(None, tmp_path / "new.json")
    with pytest.raises(DataError, match=r"is a folder; name a file to write"):
        check_files(None, tmp_path)
