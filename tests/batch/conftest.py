"""An evaluator with a toy backend, and logs of short rows."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import exit_code
from trivet.backends.backend import LoadedBackend
from trivet.batch.run import ResumePolicy, evaluate_to_file
from trivet.batch.run_settings import RunSettings
from trivet.bundle.bundle import write_bundle
from trivet.bundle.info import BundleInfo, GraphInfo
from trivet.data.tokenization import SegmentTokenizer
from trivet.evaluation import evaluator
from trivet.evaluation.evaluator import Evaluator
from trivet.logs.log import Log
from trivet.report.run_record import RunRecord

TOY_RUN = Path(__file__).with_name("toy_run.py")

Call = Callable[..., tuple[int, str, str]]
WriteLog = Callable[..., Path]
Judge = Callable[..., RunRecord]

GOOD = {"question": "What?", "contexts": ["The mill is old."], "response": "It is old."}


def short_row(number: int) -> dict[str, Any]:
    """Return one of a thousand different rows."""
    return {
        "id": f"q{number}",
        "question": f"What was built in {number % 10}?",
        "contexts": [f"The mill was built in {number % 100}.", "The boat was red."],
        "response": f"It was built in {number % 1000}.",
    }


@pytest.fixture(scope="session")
def toy_bundle(
    tmp_path_factory: pytest.TempPathFactory,
    wordpiece_file: Path,
    tiny_info: Callable[[SegmentTokenizer], BundleInfo],
) -> Path:
    """Write a bundle whose graph is never opened."""
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    graph = GraphInfo(file="model.onnx", precision="fp32", opset=17, portable=True)
    info = tiny_info(tokenizer).model_copy(update={"graphs": (graph,)})
    folder = tmp_path_factory.mktemp("toy") / "bundle"
    write_bundle(folder, info, tokenizer.to_json(), extra={"model.onnx": b"never opened"})
    return folder


@pytest.fixture
def toy(toy_bundle: Path) -> Evaluator:
    """Return an evaluator whose numbers depend on all rows that share a backend call."""
    return Evaluator(toy_bundle, backend=runpy.run_path(str(TOY_RUN))["ToyBackend"]())


@pytest.fixture
def write_log(tmp_path: Path) -> WriteLog:
    """Return a function that writes JSON lines: of numbers, of rows, or lines as they are."""

    def write(rows: Iterable[Any], name: str = "log.jsonl") -> Path:
        path = tmp_path / name
        with path.open("w", encoding="utf-8") as file:
            for row in rows:
                whole = short_row(row) if isinstance(row, int) else row
                file.write(f"{whole if isinstance(whole, str) else json.dumps(whole)}\n")
        return path

    return write


@pytest.fixture
def judge(toy: Evaluator) -> Judge:
    """Return a function that runs a log into a file: ``judge(log, out, **settings)``."""

    def run(log: Path, out: Path, policy: ResumePolicy | None = None, **settings: Any) -> RunRecord:
        chosen, resume = RunSettings(**settings), policy or ResumePolicy()
        return evaluate_to_file(toy, Log(str(log)), out, chosen, lambda tally: None, resume)

    return run


@pytest.fixture
def call(
    toy: Evaluator, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Call:
    """Return a function that runs the command line on the toy: exit code, stdout, stderr."""
    monkeypatch.setattr(evaluator, "load_backend", lambda *_: LoadedBackend(toy.backend, "fp32"))

    def run(*words: object) -> tuple[int, str, str]:
        model = ("--bundle", toy.bundle.folder) if words[0] == "evaluate" else ()
        return exit_code(monkeypatch, *words, *model), *capfd.readouterr()

    return run
