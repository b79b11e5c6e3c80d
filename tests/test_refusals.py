"""Every refusal keeps its exit code or HTTP status, and its message names the culprit."""

from __future__ import annotations

import contextlib
import logging
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tests.command_line import exit_code
from tests.refusal_causes import SERVER_STATES, STATES, KeyedServer, write_inputs
from tests.serve.http.conftest import EXAMPLE, refusal
from trivet.__main__ import app
from trivet.batch.output import Output
from trivet.commands import shared
from trivet.serve.http.request_errors import STATUSES

DOCS = Path(__file__).resolve().parent.parent / "docs"

# Exit code, command line, words of stderr, and the state of the machine if it is to blame. Left to
# other tests: 143, SIGTERM while training (training/test_resume.py) or again while serving, and 1,
# a server that must leave requests without an answer (serve/http/test_process.py).
COMMANDS: list[tuple[Any, ...]] = [
    (1, "evaluate unfit.jsonl", "1 failed"),
    (1, "train config.yaml", "the loss is nan at step 3", "a diverging run"),
    (1, "ablate grid.yaml", "head_lr=1/seed0 failed: no memory", "a failing cell"),
    (2, "nothing", "No such command"),
    (2, "evaluate rows.jsonl --out ./rows.jsonl", "would overwrite the input"),
    (2, "evaluate absent.jsonl", "no such file: absent.jsonl"),
    (2, "export onnx in", "pip install -c constraints.txt '.[export]'", "no onnx"),
    (2, "adapt absent.jsonl --out x", "trivet: no such file: absent.jsonl"),
    (2, "annotate rows.jsonl --out a.jsonl --model m", "OPENAI_API_KEY is not set", "no key"),
    (2, "serve --host 0.0.0.0", "trivet: --host 0.0.0.0 can be reached from other machines"),
    (3, "evaluate rows.jsonl --bundle spoilt", "tokenizer.json"),
    (3, "publish folder org/name", "folder/MANIFEST.json: missing"),
    (4, "calibrate tiny --thresholds-only --data jsonl:labelled.jsonl --out c", "no clean separ"),
    (4, "adapt labelled.jsonl --out x", "not shown to be better: keep embedded", "no better model"),
    (5, "evaluate rows.jsonl --out v.jsonl", "free some space", "a full disk"),
    (6, "evaluate rows.jsonl --out done.jsonl --texts", "--texts was False, is True"),
    (7, "evaluate rows.jsonl --out done.jsonl", "another process writes it now", "a locked file"),
    (8, "evaluate rows.jsonl --fail-under faithfulness=1", "is below 1"),
    (
        8,
        "evaluate --question q --context c --response r --fail-under faithfulness=1",
        "is below 1",
    ),
    (9, "evaluate empty.jsonl --out v.jsonl", "empty.jsonl: is empty: there is no row to evaluate"),
    (10, "annotate rows.jsonl --out a.jsonl --model m --price 9,9 --max-dollars 1e-9", "raise --"),
    (130, "evaluate rows.jsonl --out v.jsonl", "the same command resumes the run", "Ctrl-C"),
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, wordpiece_file: Path) -> Iterator[Path]:
    """Return a folder of inputs, judged by a formula."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("inputs"))
        write_inputs(patch, wordpiece_file)
        yield Path.cwd()


def contents() -> dict[str, bytes]:
    files = (path for path in Path().rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize("row", COMMANDS, ids=[row[1] for row in COMMANDS])
def test_a_refused_command_keeps_its_exit_code(
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    row: tuple[Any, ...],
) -> None:
    code, words, text, state = (*row, "")[:4]
    monkeypatch.chdir(shutil.copytree(inputs, tmp_path / "here"))
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    before = contents()
    with Output(Path("done.jsonl")) if state == "a locked file" else contextlib.nullcontext():
        STATES.get(state, id)(monkeypatch)
        exit_status = exit_code(monkeypatch, *shlex.split(words))
    out, err = capfd.readouterr()
    assert (exit_status, text in " ".join((out + err).split())) == (code, True), out + err
    assert not re.search("Traceback|Input should|Value error", err)
    if code in (2, 3, 6, 7, 9):  # caught in time
        assert (out, contents()) == ("", before)


def test_the_documents_name_every_exit_code_and_no_other() -> None:
    page = (DOCS / "evaluating.md").read_text(encoding="utf-8")
    table = page.partition("## Exit codes")[2].partition("\n## ")[0]
    listed = [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]
    helped = re.findall(r"[:,] (\d+) ", str(get_command(app).epilog))
    assert listed == [int(code) for code in helped] == sorted({0, *(row[0] for row in COMMANDS)})
    named = {code for name, code in vars(shared).items() if name.isupper()}
    assert named == {row[0] for row in COMMANDS}


EVALUATE, STREAM, CLASSIFY = "POST /v1/evaluate", "POST /v1/stream", "POST /classify"
ASK = EXAMPLE | {"timeout_ms": 9000}

# Status, error type, route, body, words of the message, and the state of the server if it is to
# blame. Left to other tests in serve/http: 408, a body that stalls, and 431, headers beyond the
# limits, which has no body (test_http_server.py); 499, a client that hung up, and 422 of the
# type window (test_errors.py).
REQUESTS: list[tuple[Any, ...]] = [
    (400, "invalid_json", EVALUATE, b"{", "not valid JSON"),
    (400, "invalid_unicode", EVALUATE, b'{"question": "\\ud800"}', "hex escape"),
    (400, "malformed", EVALUATE, ASK, "the only Transfer-Encoding is chunked", "a strange coding"),
    (401, "unauthorized", EVALUATE, ASK, "an API key is required", "another key"),
    (404, "not_found", "POST /v1/evaluate/", {}, "no such route"),
    (405, "method_not_allowed", "GET /v1/evaluate", None, "this route takes POST"),
    (413, "too_large", EVALUATE, b"x" * 50_001, "more than max_body_bytes=50000"),
    (422, "validation", EVALUATE, {}, "question: missing; contexts: missing; response: missing"),
    (422, "empty_contexts", EVALUATE, ASK | {"contexts": []}, "there are no contexts"),
    (422, "too_long", EVALUATE, ASK | {"contexts": ["x"] * 300}, "more than max_contexts (256)"),
    (429, "overloaded", EVALUATE, ASK, "full", "a full queue"),
    (500, "backend_failed", EVALUATE, ASK, "the GPU is gone", "a broken backend"),
    (500, "non_finite", EVALUATE, ASK, "nan", "a backend that answers NaN"),
    (500, "internal", EVALUATE, ASK, "its log names the request_id", "a bug"),
    (503, "draining", EVALUATE, ASK, "it stops", "a server that stops"),
    (503, "unhealthy", "GET /health/ready", None, "draining", "a server that stops"),
    (504, "deadline", EVALUATE, ASK | {"timeout_ms": 30}, "(30)", "a slow backend"),
]
HEADERS = {
    "another key": {"Authorization": "Bearer other"},
    "a strange coding": {"Authorization": "Bearer right", "Transfer-Encoding": "identity"},
}
PROMISED = {
    "malformed": {"connection": "close"},
    "too_large": {"connection": "close"},
    "unauthorized": {"www-authenticate": "Bearer"},
    "overloaded": {"retry-after": "3"},
    "draining": {"retry-after": "1", "connection": "close"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    with contextlib.closing(KeyedServer(tmp_path_factory.mktemp("keys") / "keys")) as server:
        yield server


@pytest.mark.parametrize("row", REQUESTS, ids=[f"{row[2]} {row[4]}" for row in REQUESTS])
def test_a_refused_request_keeps_its_status(
    server: KeyedServer, monkeypatch: pytest.MonkeyPatch, row: tuple[Any, ...]
) -> None:
    status, kind, route, body, text, state = (*row, "")[:6]
    method, path = route.split()
    headers = HEADERS.get(state, {"Authorization": "Bearer right"})
    if state in SERVER_STATES:
        SERVER_STATES[state](monkeypatch, server)
    answer = server.get(path, headers) if method == "GET" else server.post(path, body, headers)
    server.backend.gate.set()
    refused = refusal(answer)
    assert refused[:2] == (status, kind) and text in refused[2], refused
    assert "secret" not in answer.text
    assert PROMISED.get(kind, {}).items() <= answer.headers.items()


def test_the_documents_name_every_status_and_error_type() -> None:
    page = (DOCS / "serving.md").read_text(encoding="utf-8")
    table = page.partition("## Errors")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| ([\d, ]+) \| (`.*?`) \|", table, re.MULTILINE)
    listed = {
        (int(status), kind)
        for statuses, kinds in cells
        for status in statuses.split(", ")
        for kind in re.findall(r"\w+", kinds)
        if len(statuses) == 3 or status == str(STATUSES[kind])
    }
    tested = {row[:2] for row in REQUESTS}
    assert listed == tested | {(408, "timeout_reading"), (422, "window")}
    assert listed | {(499, "client_gone")} == {(status, kind) for kind, status in STATUSES.items()}
