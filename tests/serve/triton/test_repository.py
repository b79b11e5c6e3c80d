"""Files of a repository, and refusals before any is written."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any, cast

import onnx
import pytest

from tests.command_line import exit_code
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.bundle.bundle import (
    ENCODER_NAME,
    GRAPH_NAME,
    INT8_NAME,
    SELF_TEST_NAME,
    WEIGHTS_NAME,
    add_files,
    read_bundle,
)
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.self_test import SelfTest, read_self_test
from trivet.data.windows import Windows
from trivet.errors import BundleError
from trivet.serve.triton.config import EncoderKind
from trivet.serve.triton.repository import export_triton


def listed(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_each_model_holds_all_that_it_needs(repository: Path) -> None:
    bundle = {"MANIFEST.json", "README.md", "bundle.json", "tokenizer.json", "self_test.json"}
    bundle = {f"1/bundle/{name}" for name in bundle | {INT8_NAME}}
    for model in ("trivet", "encoder"):
        assert listed(repository / model) == bundle | {"config.pbtxt", "1/model.py"}
        manifest = (repository / model / "1" / "bundle" / "MANIFEST.json").read_bytes()
        text = (repository / model / "config.pbtxt").read_text()
        assert f'"{hashlib.sha256(manifest).hexdigest()}"' in text
        files = read_bundle(repository / model / "1" / "bundle").manifest.files
        embedded = read_bundle(EMBEDDED_BUNDLE).manifest.files
        assert files["tokenizer.json"] == embedded["tokenizer.json"]


def test_the_python_backend_gets_every_input(tmp_path: Path) -> None:
    """Its config lists them all, whatever the graph behind it reads."""
    source, graph = tmp_path / "source", onnx.load(EMBEDDED_BUNDLE / INT8_NAME)
    shutil.copytree(EMBEDDED_BUNDLE, source)
    graph.graph.input.remove(next(info for info in graph.graph.input if info.name == "segment_ids"))
    zeros = onnx.helper.make_node("Sub", ["attention_mask"] * 2, ["segment_ids"])
    graph.graph.node.insert(0, zeros)
    onnx.save(graph, tmp_path / "graph.onnx")
    backend = OnnxRuntimeBackend(tmp_path / "graph.onnx", 1)
    assert "segment_ids" not in backend.inputs
    windows = read_self_test(source / SELF_TEST_NAME).arrays()
    answer = backend.run(Windows(**windows)).present()
    test = SelfTest.record(windows, {INT8_NAME: ("int8", answer)})
    add_files(source, {INT8_NAME: tmp_path / "graph.onnx", SELF_TEST_NAME: test.to_json().encode()})
    for kind, asked in (("python-onnx", True), ("onnxruntime", False)):
        out = tmp_path / kind
        export_triton(source, out, cast(EncoderKind, kind), threads=1)
        assert ('name: "segment_ids"' in (out / "encoder" / "config.pbtxt").read_text()) == asked
        assert ("segment_ids" in (out / "trivet" / "config.pbtxt").read_text()) == asked


def test_weights_and_other_graphs_stay_behind(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(EMBEDDED_BUNDLE, source)
    add_files(source, {WEIGHTS_NAME: b"weights", ENCODER_NAME: b"{}", GRAPH_NAME: b"graph"})
    out = tmp_path / "repository"
    export_triton(source, out, "onnxruntime", threads=1)
    assert listed(out / "encoder") == {"config.pbtxt", f"1/{INT8_NAME}"}
    copied = read_bundle(out / "trivet" / "1" / "bundle")
    assert not {WEIGHTS_NAME, ENCODER_NAME, GRAPH_NAME} & copied.manifest.files.keys()
    assert (out / "encoder" / "1" / INT8_NAME).read_bytes() == (source / INT8_NAME).read_bytes()


def test_nothing_is_written_over(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for out in (repository, tmp_path):
        with pytest.raises(BundleError, match="not empty; give an empty or a new folder"):
            export_triton(EMBEDDED_BUNDLE, out, "python-onnx")
    assert listed(tmp_path) == {"mine.txt"}


@pytest.mark.parametrize(
    ("kind", "precision", "message"),
    [
        ("python-onnx", "fp32", "no fp32 graph"),
        ("onnxruntime", "bf16", "bf16 is for GPUs"),
        ("tensorrt", "int8", "no TensorRT engine in int8"),
        ("tensorrt", None, "an engine needs a graph in fp16; run `trivet export"),
    ],
)
def test_a_missing_graph_is_named(tmp_path: Path, kind: Any, precision: Any, message: str) -> None:
    out = tmp_path / "repository"
    with pytest.raises(BundleError, match=message):
        export_triton(EMBEDDED_BUNDLE, out, kind, precision=precision)
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--out", "OUT", "--encoder", "onnxruntime"], 0),
        (["--out", "OUT"], 2),
        (["--encoder", "onnxruntime"], 2),
        (["--out", "OUT", "--encoder", "openvino"], 2),
        (["--out", "OUT", "--encoder", "onnxruntime", "--data", "x"], 2),
    ],
)
def test_the_command_writes_it_or_refuses_its_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(monkeypatch, "export", "triton", EMBEDDED_BUNDLE, *arguments) == code
    written = {path.name for path in tmp_path.glob("OUT/*")}
    assert written == (set() if code else {"trivet", "encoder"})
