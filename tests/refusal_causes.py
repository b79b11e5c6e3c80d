"""Inputs that are refused, and states of a machine or a server in which all are refused."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from tests.command_line import exit_code
from tests.conftest import bundle_info
from tests.judges import FormulaBackend
from tests.serve.http.conftest import EXAMPLE, Asked, EvenBackend
from trivet.backends.backend import LoadedBackend
from trivet.bundle.bundle import write_bundle
from trivet.bundle.info import GraphInfo
from trivet.data.tokenization import SegmentTokenizer
from trivet.errors import BackendError, DivergedError
from trivet.evaluation import evaluator
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.window_queue import Overloaded
from trivet.serve.http.batcher import Draining
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.server_settings import ServerSettings


def fails(fault: object) -> Mock:
    return Mock(side_effect=fault)


def give(patch: pytest.MonkeyPatch, **modules: object) -> None:
    """Replace modules, or take away those that are ``None``."""
    for name, module in modules.items():
        patch.setitem(sys.modules, name.replace("__", "."), module)


def no_onnx(patch: pytest.MonkeyPatch) -> None:
    patch.delitem(sys.modules, "trivet.export", raising=False)  # imported anew
    give(patch, onnx=None)


def diverging(patch: pytest.MonkeyPatch) -> None:
    training = Mock(train=fails(DivergedError("the loss is nan at step 3")))
    give(patch, trivet__configs__loading=Mock(), trivet__train=training)


def failing_cell(patch: pytest.MonkeyPatch) -> None:
    failure = Mock(**{"run.name": "head_lr=1/seed0", "reason": "no memory"})
    modules = {f"trivet__ablation__{name}": Mock() for name in ("grid", "markdown", "table")}
    give(patch, trivet__ablate=Mock(**{"ablate.return_value": [failure]}), **modules)


def no_better_model(patch: pytest.MonkeyPatch) -> None:
    adapted = Mock(better=False, start="embedded", bundle="x/bundle")
    tables = Mock(**{"render_changes.return_value": "", "describe.return_value": ""})
    give(patch, trivet__adapt=Mock(**{"adapt.return_value": adapted}), trivet__adaptation=tables)


STATES: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "a diverging run": diverging,
    "a failing cell": failing_cell,
    "no better model": no_better_model,
    "no onnx": no_onnx,
    "no key": lambda patch: patch.delenv("OPENAI_API_KEY"),
    "a full disk": lambda patch: patch.setattr("os.fsync", fails(OSError(errno.ENOSPC, "full"))),
    "Ctrl-C": lambda patch: patch.setattr("os.fsync", fails(KeyboardInterrupt)),
}


def write(name: str, *rows: dict[str, Any]) -> None:
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_inputs(patch: pytest.MonkeyPatch, tokenizer_file: Path) -> None:
    """Write logs, labels, bundles and verdicts by a formula to the current folder."""
    good = {**EXAMPLE, "contexts": [*EXAMPLE["contexts"], "The mill is old."]}
    rows = [{**good, "id": f"q{number}", "group": f"d{number}"} for number in range(8)]
    write("rows.jsonl", *rows)
    write("unfit.jsonl", {**good, "contexts": []})
    labels = [{"adherent": True}, {"unsupported": [[0, 4]], "adherent": False}] * 4
    labelled = ({**row, "labels": label} for row, label in zip(rows, labels, strict=True))
    write("labelled.jsonl", *labelled)
    write("empty.jsonl")
    Path("folder").mkdir()
    for name in ("tiny", "spoilt"):
        tokenizer = SegmentTokenizer.from_file(tokenizer_file)
        graph = GraphInfo(file="model.onnx", precision="fp32", opset=17, portable=True)
        info = bundle_info(graphs=(graph,))
        write_bundle(Path(name), info, tokenizer.to_json(), extra={"model.onnx": b"unread"})
    Path("spoilt/tokenizer.json").write_bytes(b"{")
    toy = LoadedBackend(FormulaBackend(), "fp32")  # no graph of a bundle is loaded
    patch.setattr(evaluator, "load_backend", lambda *_: toy)
    exit_code(patch, "evaluate", "rows.jsonl", "--quiet", "--out", "done.jsonl")


class KeyedServer(Asked):
    """A server that asks for the key ``right``, whose backend a test may break."""

    def __init__(self, keys: Path) -> None:
        keys.write_text("right\n", encoding="utf-8")
        self.backend = EvenBackend()
        settings = ServerSettings(keys_file=keys, max_body_bytes=50_000)
        super().__init__(Evaluator(backend=self.backend), settings, KeyRing.read(keys))

    def judge(self, patch: pytest.MonkeyPatch, fault: Exception) -> None:
        """Let every judgement raise ``fault``."""
        patch.setattr(self.batcher, "evaluate", AsyncMock(side_effect=fault))


def stop(patch: pytest.MonkeyPatch, server: KeyedServer) -> None:
    patch.setattr(server.health, "draining", True)
    server.judge(patch, Draining("it stops"))


SERVER_STATES: dict[str, Callable[[pytest.MonkeyPatch, KeyedServer], object]] = {
    "a full queue": lambda patch, server: server.judge(patch, Overloaded("full", "windows", 2.1)),
    "a bug": lambda patch, server: server.judge(patch, ZeroDivisionError("a secret")),
    "a server that stops": stop,
    "a slow backend": lambda patch, server: server.backend.gate.clear(),
    "a backend that answers NaN": lambda patch, server: patch.setattr(
        server.backend, "value", float("nan")
    ),
    "a broken backend": lambda patch, server: patch.setattr(
        server.backend, "error", BackendError("the GPU is gone")
    ),
}
