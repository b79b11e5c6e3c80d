"""The command line, run in this process: output, files and exit codes."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import trivet
from tests.command_line import exit_code
from tests.judges import outputs_of
from trivet.backends.backend import LoadedBackend
from trivet.bundle.bundle import TEXTS_NAME, add_files, write_bundle
from trivet.bundle.info import BundleInfo, GraphInfo, Thresholds
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import Windows
from trivet.evaluation import evaluator
from trivet.labelled.grouping import text_digests
from trivet.labelled.sources import load_source
from trivet.model.aggregate import Outputs

GOOD = {"question": "What?", "contexts": ["The mill is old."], "response": "It is old."}

Call = Callable[..., tuple[int, str, str]]


class Half:
    """A backend whose probabilities are 0.75 for every token except 0.25 for "wood"."""

    name = "half"

    def __init__(self, wood: int) -> None:
        self.wood = wood

    def run(self, windows: Windows) -> Outputs:
        values = np.where(windows.input_ids == self.wood, 0.25, 0.75)
        return outputs_of(windows, values, values, values, "weakest_token")


@pytest.fixture
def bundle(
    tmp_path: Path,
    wordpiece_file: Path,
    tiny_info: Callable[[SegmentTokenizer], BundleInfo],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Write a bundle that `Half` runs."""
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    described = tiny_info(tokenizer)
    info = described.model_copy(
        update={
            "encoder": described.encoder.model_copy(update={"source": "a [bold]formula"}),
            "faithfulness": "weakest_token",
            "thresholds": Thresholds(sentence=0.7, span=0.5),
            "graphs": (GraphInfo(file="model.onnx", precision="fp32", opset=17, portable=True),),
        }
    )
    folder = tmp_path / "bundle"
    write_bundle(folder, info, tokenizer.to_json(), extra={"model.onnx": b"never opened"})
    wood = int(tokenizer.encode(["wood"])[0].ids[0])
    monkeypatch.setattr(evaluator, "load_backend", lambda *_: LoadedBackend(Half(wood), "fp32"))
    return folder


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function from a command line to its exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*words: object) -> tuple[int, str, str]:
        return exit_code(monkeypatch, *words), *capfd.readouterr()

    return run


def write_rows(path: Path, *rows: object) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_one_answer_is_printed_or_written_as_json(call: Call, bundle: Path, tmp_path: Path) -> None:
    texts = ["--question", "What?", "--context", "The mill is old.", "--context", "It is of stone."]
    words = ["evaluate", *texts, "--response", "The mill is of wood.", "--bundle", bundle]
    code, out, _ = call(*words)
    assert code == 0
    for shown in ("The mill is of [wood].", "marked text: no context supports it"):
        assert shown in out
    assert "faithfulness     0.250  unsupported" in out
    file = tmp_path / "one.json"
    assert call(*words, "--out", file)[0] == 0
    assert json.loads(file.read_bytes())["unsupported"][0]["text"] == "wood"


def test_contexts_may_be_empty_on_request(call: Call, bundle: Path, tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", {**GOOD, "contexts": []})
    assert call("evaluate", file, "--bundle", bundle)[0] == 1
    assert call("evaluate", file, "--allow-empty-contexts", "--bundle", bundle)[0] == 0


def test_stdin_compressed_files_and_other_field_names_are_read(
    call: Call, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"prompt": "What?", "retrieved_contexts": ["The mill."], "answer": "It is old."}
    line = json.dumps(row).encode() + b"\n"
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(line))
    mapped = ["--map", "question=prompt", "--bundle", bundle]
    code, out, _ = call("evaluate", tmp_path / "rows.jsonl.gz", *mapped)
    assert (code, json.loads(out)["faithfulness"]) == (0, 0.75)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
    code, out, _ = call("evaluate", "-", *mapped)
    assert (code, json.loads(out)["faithfulness"]) == (0, 0.75)
    rows = "".join(json.dumps({**row, "id": str(n)}) + "\n" for n in range(500))
    flipped = bytearray(gzip.compress(rows.encode()))
    flipped[len(flipped) // 2] ^= 0xFF
    (tmp_path / "flipped.jsonl.gz").write_bytes(flipped)
    code, out, err = call("evaluate", tmp_path / "flipped.jsonl.gz", *mapped)
    assert code == 2
    # Every readable line has a result, although the damage is in the middle of a block.
    assert f"breaks off after line {len(out.splitlines())}:" in err


def test_labelled_rows_are_measured(call: Call, bundle: Path, tmp_path: Path) -> None:
    good = {**GOOD, "labels": {"unsupported": []}, "source": "mine"}
    bad = {**good, "response": "It is of wood.", "labels": {"unsupported": [[9, 13]]}}
    rows = [{**(bad if n % 2 else good), "id": str(n), "group": str(n)} for n in range(20)]
    file = write_rows(tmp_path / "rows.jsonl", *rows)
    report, table, page = (tmp_path / f"figures.{suffix}" for suffix in ("json", "md", "html"))
    files = ["--json", report, "--markdown", table, "--report", page]
    words = ["--data", f"jsonl:{file}", "--bundle", bundle, "--by-length"]
    code, out, err = call("test", *words, *files)
    assert code == 0, err
    assert "hallucination_auroc" in out
    assert "20 evaluated, 0 failed" in err
    tables = [line.rstrip() for line in out.splitlines() if not line.startswith("  ")]
    assert max(map(len, tables)) <= 80
    assert "| mine | hallucination_auroc | 1.000 |" in table.read_text(encoding="utf-8")
    shown = page.read_text(encoding="utf-8")
    for expected in (">hallucination_auroc</td>", "<svg", "0-5k: 20, 5k-16k: 0, over 16k"):
        assert expected in shown
    written = json.loads(report.read_bytes())
    assert written["lengths"] == {"0-5k": 20, "5k-16k": 0, "over 16k": 0}
    by_length = [figure for figure in written["figures"] if figure["length"]]
    assert {figure["length"] for figure in by_length} == {"0-5k"}
    figures = {figure["measure"]: figure for figure in written["figures"] if not figure["length"]}
    assert figures["hallucination_auroc"]["value"] == figures["span_f1"]["value"] == 1.0
    assert figures["hallucination_fpr_at_recall_90"]["value"] == 0.0


def test_several_sources_are_measured_together(call: Call, bundle: Path, tmp_path: Path) -> None:
    row = {**GOOD, "labels": {"unsupported": []}, "group": "a"}
    words = ["test", "--bundle", bundle, "--json", tmp_path / "figures.json"]
    for name in ("one", "two"):
        file = write_rows(tmp_path / f"{name}.jsonl", {**row, "source": name}, {"question": 1})
        words += ["--data", f"jsonl:{file}"]
    code, out, err = call(*words)
    assert code == 0, err
    assert "2 evaluated, 0 failed" in err
    assert "one\n" in out
    assert "two\n" in out
    report = json.loads((tmp_path / "figures.json").read_bytes())["report"]
    assert (report["rows"], report["kept"], sum(report["dropped"].values())) == (4, 2, 2)
    assert all(len(places) == 2 for places in report["places"].values())


def test_rows_that_share_no_text_with_training_are_also_measured_alone(
    call: Call, bundle: Path, tmp_path: Path
) -> None:
    good = {**GOOD, "labels": {"unsupported": []}, "source": "mine"}
    other = {**good, "contexts": ["The ferry is old and painted red."], "question": "What ferry?"}
    rows = [{**(other if n % 4 else good), "id": str(n), "group": str(n)} for n in range(8)]
    file, report = write_rows(tmp_path / "rows.jsonl", *rows), tmp_path / "figures.json"
    words = ["test", "--data", f"jsonl:{file}", "--bundle", bundle, "--json", report]
    _, _, err = call(*words)
    assert "leaks: not known, because the bundle has no record of its training texts" in err
    trained, _ = load_source(f"jsonl:{write_rows(tmp_path / 'trained.jsonl', rows[0])}")
    add_files(bundle, {TEXTS_NAME: "\n".join(text_digests(trained)).encode()})
    code, out, err = call(*words, "--report", tmp_path / "page.html")
    assert code == 0, err
    assert "leaks: 2 of 8 rows share a text with training rows" in err
    assert "mine, leak-free" in out
    assert "Leak-free rows" in (tmp_path / "page.html").read_text(encoding="utf-8")
    counts = {
        figure["rows"]: figure["n"]
        for figure in json.loads(report.read_bytes())["figures"]
        if figure["measure"] == "hallucination_accuracy"
    }
    assert counts == {None: 8, "leak-free": 6}


def test_info_shows_the_bundle_and_version_the_package(call: Call, bundle: Path) -> None:
    assert call("--version")[:2] == (0, f"trivet {trivet.__version__}\n")
    code, out, _ = call("info", bundle)
    assert code == 0
    for words in ("tiny", "a [bold]formula (none), 2 layers", "48 tokens", "sentence"):
        assert words in out


def test_the_package_has_every_public_name() -> None:
    for name in trivet.__all__:
        assert getattr(trivet, name) is not None
        assert name in dir(trivet)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        trivet.nothing  # noqa: B018
