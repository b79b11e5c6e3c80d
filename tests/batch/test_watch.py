"""A log that grows is evaluated line by line, through cuts and half-written lines."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trivet.batch.settings import RunSettings
from trivet.batch.watch import check_watched, watch
from trivet.errors import DataError
from trivet.evaluation.evaluator import Evaluator

ROW = {"question": "When?", "contexts": ["The mill was built in 1817."], "response": "In 1817."}


def line(name: str) -> str:
    return json.dumps({**ROW, "id": name}) + "\n"


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def test_rows_are_evaluated_as_they_are_written(toy: Evaluator, tmp_path: Path) -> None:
    path, sink = tmp_path / "log.jsonl", io.BytesIO()
    path.write_text(line("a") + "no JSON\n" + line("b")[:20], encoding="utf-8")
    steps: Iterator[Callable[[], object]] = iter(
        [
            lambda: None,
            lambda: append(path, line("b")[20:] + line("c")),
            lambda: None,
            lambda: path.write_text(line("d"), encoding="utf-8"),  # shorter: begins anew
            lambda: None,
        ]
    )

    def stopped() -> bool:
        step = next(steps, None)
        if step is not None:
            step()
        return step is None

    seen: list[int] = []
    tally = watch(
        *(toy, path, RunSettings(), sink, lambda tally: seen.append(tally.rows)),
        stopped=stopped,
        pause_seconds=0.01,
    )
    found = [json.loads(each) for each in sink.getvalue().splitlines()]
    assert [each["id"] for each in found] == ["a", None, "b", "c", "d"]
    assert [each["row"] for each in found] == [1, 2, 3, 4, 5]
    assert found[1]["error"]["line"] == 2
    assert all(each["faithfulness"] is not None for each in (found[0], *found[2:]))
    assert (tally.failed, seen[-1]) == (1, 5)


def test_the_first_record_shows_the_shape_of_all(toy: Evaluator, tmp_path: Path) -> None:
    path, sink = tmp_path / "log.jsonl", io.BytesIO()
    said = [("user", "When?"), ("tool", "It was in 1817."), ("assistant", "In 1817.")]
    talk = {"messages": [{"role": role, "content": content} for role, content in said]}
    path.write_text(f"no JSON\n{json.dumps(talk)}\n", encoding="utf-8")
    written: list[int] = []

    def stopped() -> bool:  # only once both lines are answered: nothing waits for more of them
        return bool(written) and written[-1] == 2

    watch(
        *(toy, path, RunSettings(), sink, lambda tally: written.append(tally.rows)),
        stopped=stopped,
        pause_seconds=0.01,
    )
    failed, verdict = map(json.loads, sink.getvalue().splitlines())
    assert failed["error"]["code"] == "malformed_line"
    assert verdict["context_ids"] == ["tool"]


def test_rows_of_another_kind_end_it(toy: Evaluator, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n' * 64, encoding="utf-8")
    with pytest.raises(DataError, match="none of the first 64 rows can be read"):
        watch(toy, path, RunSettings(), io.BytesIO(), lambda tally: None)


def test_only_a_file_of_json_lines_is_watched(tmp_path: Path) -> None:
    (tmp_path / "log.csv").touch()
    with pytest.raises(DataError, match=r"log\.csv: is no JSON lines"):
        check_watched(tmp_path / "log.csv")
    with pytest.raises(DataError, match="is no file"):
        check_watched(tmp_path)


def test_the_command_ends_with_a_summary_when_it_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(line("a"), encoding="utf-8")
    command = [sys.executable, "-m", "trivet", "evaluate", str(path), "--watch", "--threads", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        verdict = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert (verdict["row"], process.returncode) == (1, 0), said
    assert "1 answer" in said
