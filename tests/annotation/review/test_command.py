"""``trivet review`` as a process: it serves, ends by Ctrl-C, and refuses in one sentence."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.annotation.review.conftest import lines
from tests.command_line import exit_code
from trivet.annotation.review import server as server_module
from trivet.commands import review as command
from trivet.evaluation import evaluator as evaluator_module
from trivet.records import RagExample


def test_rows_are_saved_until_ctrl_c(labelled: Path, out: Path) -> None:
    words = ["review", str(labelled), "--port", "0", "--no-open", "--reviewer", "Ada"]
    pipe = subprocess.PIPE
    # A background job of a shell ignores SIGINT, and so do the processes that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [sys.executable, "-m", "trivet", *words], stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        url = process.stdout.readline().strip()
        host, _, secret = url.removeprefix("http://").partition("/")
        connection = http.client.HTTPConnection(host, timeout=60)
        body = json.dumps({"seen": "", "unsupported": [], "relevant": None, "utilized": None})
        headers = {"Content-Type": "application/json", "Origin": f"http://{host}"}
        connection.request("POST", f"/{secret}rows/0", body, headers)
        assert connection.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == f"0 of 4 rows are reviewed in {out}; Ctrl-C ends\n"
    assert [row["review"]["by"] for row in lines(out)] == ["Ada"]


def end_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, str]:
    """Run the command without ever serving; return its exit code and stderr."""
    monkeypatch.setattr(server_module.ReviewServer, "serve_forever", lambda self: None)
    return exit_code(monkeypatch, "review", *words, "--no-open"), capsys.readouterr().err


def test_the_judge_orders_by_uncertainty(
    labelled: Path,
    tiny_bundle: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[RagExample] = []
    original = evaluator_module.Evaluator.evaluate_many

    def remember(self: evaluator_module.Evaluator, rows: Iterable[RagExample]) -> object:
        asked.extend(rows)
        return original(self, asked)

    monkeypatch.setattr(evaluator_module.Evaluator, "evaluate_many", remember)
    words = (labelled, "--order", "uncertainty", "--bundle", tiny_bundle, "--port", 0)
    code, _ = end_of(monkeypatch, capsys, *words)
    assert code == 0
    assert [one.id for one in asked] == ["a", "b", "c", "d"]


def test_the_reviewer_is_the_account_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    assert command.name_of(None) == "ada"
    assert command.name_of("Ben") == "Ben"
