"""Verdict files: texts from the file or from the log, failed lines, records of runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.report.rows import make_row
from trivet.errors import DataError
from trivet.measures.figures import ErrorRates
from trivet.report.run_record import RunRecord, record_path
from trivet.report.verdict_files import VerdictFile, VerdictRow


def line(row: VerdictRow, **more: Any) -> dict[str, Any]:
    return {"row": row.row, **(row.verdict or {}), "metadata": dict(row.metadata), **more}


def write(path: Path, records: Sequence[dict[str, Any] | str]) -> Path:
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def log_row(row: VerdictRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "prompt": row.question,
        "contexts": [{"id": f"doc-{row.row}", "text": text} for text in row.contexts or ()],
        "response": row.response,
    }


def write_run(out: Path, log: Path, **changes: Any) -> None:
    record = RunRecord(
        trivet="0.1.0",
        started="2026-11-20T20:15:00+00:00",
        input={"path": str(log), "bytes": 1, "sha256": "00"},
        bundle={
            "name": "tiny",
            "manifest_sha256": "0123456789abcdef",
            "thresholds": {"a": 0.5},
            "errors": [asdict(ERRORS)],
        },
        backend={"name": "onnx", "precision": "fp32"},
        settings={"mapping": {"question": "prompt"}, "format": None, "shard": "1/1"},
        block_characters=1,
    )
    written = replace(record, **changes).to_dict()
    record_path(out).write_text(json.dumps(written), encoding="utf-8")


ERRORS = ErrorRates("ragtruth/QA", "dev", 297, 24, 212, 125)
ROWS = [
    make_row(n, question=f"Question {n}?", id_=f"q{n}", metadata={"model": "m", "try": n})
    for n in (1, 2, 4, 7)
]
ERROR = {"row": 2, "id": "q2", "error": {"code": "empty_contexts", "message": "none"}}


def questions(file: VerdictFile) -> list[str | None]:
    return [row.question for row in file]


def test_texts_in_the_file_are_used(tmp_path: Path) -> None:
    names = ("question", "contexts", "response")
    records = [line(row, texts={name: getattr(row, name) for name in names}) for row in ROWS]
    rows = list(VerdictFile(write(tmp_path / "v.jsonl", records)))
    for name in ("row", "id", "metadata", *names):
        assert [getattr(row, name) for row in rows] == [getattr(row, name) for row in ROWS]


def test_texts_come_from_the_recorded_log(tmp_path: Path) -> None:
    # The log has more rows, as for a shard.
    logged = [log_row(make_row(n, question=f"Question {n}?")) for n in range(1, 9)]
    log = write(tmp_path / "log.jsonl", logged)
    out = write(tmp_path / "v.jsonl", [line(row) for row in ROWS])
    write_run(out, log)
    for _ in range(2):  # each iteration reads the file again
        rows = list(VerdictFile(out))
        assert [row.question for row in rows] == [row.question for row in ROWS]
        assert rows[2].context_ids == ("doc-4",)
        assert rows[0].response == ROWS[0].response
    log.unlink()
    assert questions(VerdictFile(out)) == [None] * 4
    moved = write(tmp_path / "moved.jsonl", [log_row(row) for row in ROWS[:2]])
    assert questions(VerdictFile(out, str(moved))) == ["Question 1?", "Question 2?", None, None]


def test_lines_that_are_not_verdicts_become_failed_rows(tmp_path: Path) -> None:
    out = write(tmp_path / "v.jsonl", [line(ROWS[0]), ERROR, '{"row": 3, "faith', {"row": 4}])
    rows = list(VerdictFile(out))
    codes = [row.error and row.error.code for row in rows]
    assert codes == [None, "empty_contexts", "malformed_line", "no_verdict"]
    assert rows[2].error is not None and "line 3 of the verdicts" in rows[2].error.message


def test_a_file_without_verdicts_is_refused(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [log_row(ROWS[0])])
    with pytest.raises(DataError, match=r"line 1 holds no score \(found id, prompt, contexts, "):
        list(VerdictFile(log))
    with pytest.raises(DataError, match="no such file"):
        VerdictFile(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="no such file"):
        VerdictFile(log, str(tmp_path / "none.jsonl"))


def test_an_unreadable_log_costs_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = write(tmp_path / "log.jsonl", ["[]"] * 70)
    out = write(tmp_path / "v.jsonl", [line(row) for row in ROWS])
    write_run(out, log)
    with caplog.at_level(logging.WARNING):
        assert questions(VerdictFile(out)) == [None] * 4
    assert "the report shows fewer texts" in caplog.text
    with pytest.raises(DataError, match="none of the first"):
        list(VerdictFile(out, str(log)))


def test_what_a_report_says_of_a_run(tmp_path: Path) -> None:
    out = write(tmp_path / "v.jsonl", [line(row) for row in ROWS])
    assert "are unknown" in VerdictFile(out).remarks[0]
    write_run(out, tmp_path / "log.jsonl", changed=["trivet was 1, is 2"])
    file = VerdictFile(out)
    assert file.about["bundle"] == "tiny, manifest 0123456789ab"
    assert file.about["input"] == "log.jsonl"
    assert file.about["settings"] == 'mapping {"question": "prompt"}, shard 1/1'
    assert file.errors == [ERRORS]
    assert "not finished" in file.remarks[0] and "trivet was 1, is 2" in file.remarks[1]
    for damaged in ("{", "[]", '{"input": 3, "settings": [], "bundle": null}'):
        record_path(out).write_text(damaged, encoding="utf-8")
        file = VerdictFile(out)
        assert file.remarks == ["v.jsonl.run.json cannot be read: bundle and settings are unknown."]
        assert (file.about, file.errors) == ({"verdicts": "v.jsonl"}, [])
