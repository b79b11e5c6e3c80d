"""Loading of backends from bundles, and bundles that are refused by name."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trivet.backends.backend import choose_graph
from trivet.backends.opening import find_graphs, load_backend, load_tokenizer
from trivet.backends.openvino import choose_for_openvino
from trivet.bundle.bundle import Bundle, add_files, read_bundle, write_bundle
from trivet.bundle.info import SpecialTokenIds
from trivet.bundle.self_test import read_self_test
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs
from trivet.settings import Precision


def part_of(bundle: Path, folder: Path, *files: str) -> Path:
    """Write a bundle of some of another's files."""
    info = read_bundle(bundle).info
    graphs = tuple(graph for graph in info.graphs if graph.file in files)
    write_bundle(
        folder,
        info.model_copy(update={"graphs": graphs}),
        (bundle / "tokenizer.json").read_text(encoding="utf-8"),
        extra={name: bundle / name for name in files},
    )
    return folder


@pytest.mark.parametrize(
    ("precision", "file"),
    [(None, "model.int8.onnx"), ("int8", "model.int8.onnx"), ("fp32", "model.onnx")],
)
def test_the_precision_decides_on_the_graph(
    tiny_bundle: Path, precision: str | None, file: str
) -> None:
    evaluator = Evaluator(tiny_bundle, 1, precision=precision)  # type: ignore[arg-type]
    assert evaluator.backend_name == f"onnxruntime {file}"


def test_fp32_is_taken_where_there_is_no_int8(tiny_bundle: Path, tmp_path: Path) -> None:
    folder = part_of(tiny_bundle, tmp_path / "part", "model.onnx", "self_test.json")
    assert Evaluator(folder).backend_name == "onnxruntime model.onnx"
    with pytest.raises(
        BundleError, match=r"no int8 graph \(it has fp32\); run `trivet export onnx .*`"
    ):
        Evaluator(folder, precision="int8")


choose_gpu_graph = functools.partial(choose_graph, on_gpu=True)
EXPORT = "`trivet export onnx .*embedded --out DIR --precision"


@pytest.mark.parametrize(
    ("choose", "precision", "message"),
    [
        (choose_graph, "fp32", f"{EXPORT} fp32`"),
        (choose_graph, "bf16", "bf16 is for GPUs"),
        (choose_gpu_graph, None, f"{EXPORT} fp16`"),
        (find_graphs, "bf16", f"{EXPORT} bf16`"),
        (find_graphs, "int8", "no TensorRT engine in int8"),
        (choose_for_openvino, "fp16", "openvino .*embedded --out DIR --data DATA`"),
    ],
)
def test_a_missing_graph_is_named_with_its_command(
    choose: Callable[[Bundle, Precision | None], object], precision: Precision | None, message: str
) -> None:
    with pytest.raises(BundleError, match=message):
        choose(read_bundle("embedded"), precision)


def test_a_tokenizer_of_another_model_is_refused(copied: Path) -> None:
    other = SpecialTokenIds(cls=7, sep=8, pad=9)
    add_files(copied, {}, read_bundle(copied).info.model_copy(update={"special_tokens": other}))
    with pytest.raises(BundleError, match=r"tokenizer\.json: .* cls 2, sep 3, pad 0.* cls 7"):
        load_tokenizer(read_bundle(copied))


def test_another_graph_under_the_same_name_fails_the_self_test(copied: Path) -> None:
    answers = json.loads((copied / "self_test.json").read_bytes())
    values = answers["expected"]["model.onnx"]["outputs"]["relevance"]["values"]
    values[0] = values[0] + 0.01
    add_files(copied, {"self_test.json": json.dumps(answers).encode()})
    load_backend(read_bundle(copied), 1, "int8")
    with pytest.raises(BundleError, match=r"model\.onnx: self-test: answers differ by 0\.01"):
        load_backend(read_bundle(copied), 1, "fp32")


def test_a_bundle_without_a_self_test_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"no self_test\.json"):
        Evaluator(part_of(tiny_bundle, tmp_path / "part", "model.onnx"))


def test_ids_beyond_the_vocabulary_are_a_backend_error(tiny_bundle: Path) -> None:
    bundle = read_bundle(tiny_bundle)
    backend = load_backend(bundle, 1, "fp32").backend
    windows = Windows(**read_self_test(bundle.path("self_test.json")).arrays())
    assert isinstance(backend.run(windows), Outputs)
    beyond = windows._replace(input_ids=np.full_like(windows.input_ids, 10**6))
    with pytest.raises(BackendError, match=r"model\.onnx failed on \d+x\d+ window positions"):
        backend.run(beyond)
