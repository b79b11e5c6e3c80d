"""Weights read back from an int8 graph round to the same integers again."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from tests.graphs import WINDOW, integers, model_of, shared_graphs, write_tiny
from trivet.backends.loading import load_backend
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.bundle import SELF_TEST_NAME, WEIGHTS_NAME, add_files, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.self_test import read_self_test
from trivet.bundle.weights import load_rag_model
from trivet.data.windows import Windows
from trivet.errors import BundleError
from trivet.export import export_onnx
from trivet.exporting.graph import OPSET, trace
from trivet.exporting.int8 import quantize
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel, as_tensors, to_numpy


@pytest.mark.parametrize(("exact_match", "digits"), [(False, []), (True, []), (True, [*range(10)])])
def test_weights_round_to_the_same_integers(
    tmp_path: Path, exact_match: bool, digits: list[int]
) -> None:
    model = RagModel(copy.deepcopy(model_of("bert").trunk)).eval()
    if exact_match:
        model.add_exact_match(digits)
    for parameter in model.parameters():  # the export stores equal tensors, as of zeros, once
        torch.nn.init.normal_(parameter, std=0.1)
    folder, out = tmp_path / "weights", tmp_path / "served"
    write_tiny(folder, model)
    export_onnx(folder, out, threads=1)
    again = load_rag_model(read_bundle(out))
    assert again.state_dict().keys() == model.state_dict().keys()
    assert again.architecture().get("digits", []) == digits
    vocab = int(again.trunk.config.vocab_size)
    graph = quantize(trace(inference_model(again, WINDOW, "runtime"), vocab, OPSET))
    for old, new in zip(integers(onnx.load(out / "model.int8.onnx")), integers(graph), strict=True):
        np.testing.assert_array_equal(old, new)


def test_weights_that_are_read_back_answer_as_at_export(tmp_path: Path) -> None:
    model = RagModel(copy.deepcopy(model_of("bert").trunk)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    folder, out = tmp_path / "weights", tmp_path / "served"
    write_tiny(folder, model)
    export_onnx(folder, out, threads=1)
    bundle = read_bundle(out)
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    with torch.inference_mode():
        found = to_numpy(load_rag_model(bundle)(*as_tensors(Windows(**test.arrays()))))
    assert test.check(WEIGHTS_NAME, found.present()) < 1e-5
    assert load_backend(bundle, 1, backend="torch", device="cpu").precision == "fp32"
    # A bundle of an older export has the answers of its graph alone.
    add_files(out, {SELF_TEST_NAME: test.without(WEIGHTS_NAME).to_json().encode()})
    assert load_backend(read_bundle(out), 1, backend="torch", device="cpu").precision == "fp32"
    other = found._replace(faithfulness=found.faithfulness - 0.01)
    test = test.with_answers(WEIGHTS_NAME, "fp32", other.present())
    add_files(out, {SELF_TEST_NAME: test.to_json().encode()})
    with pytest.raises(BundleError, match=r"model\.safetensors: self-test: .* at most 0\.001"):
        load_backend(read_bundle(out), 1, backend="torch", device="cpu")


def test_the_embedded_model_has_weights() -> None:
    bundle = read_bundle(EMBEDDED_BUNDLE)
    model = load_rag_model(bundle, {"dropout": 0.1})
    windows = make_windows(Sizes(N=3, L=40, B=2, R=9, K=2, C=23, S=3), 30522, seed=7)
    expected = OnnxRuntimeBackend(bundle.path("model.int8.onnx"), threads=1).run(windows)
    with torch.inference_mode():
        found = model(*as_tensors(windows))
    for name, theirs in expected.present().items():
        atol = 0.04 if name == "evidence_states" else 0.03  # states are no probabilities
        np.testing.assert_allclose(getattr(found, name).numpy(), theirs, atol=atol, err_msg=name)


def test_an_int8_graph_of_another_encoder_is_refused(tmp_path: Path) -> None:
    folder, out = tmp_path / "weights", tmp_path / "served"
    write_tiny(folder, model_of("deberta-v2"))
    with shared_graphs():
        export_onnx(folder, out, threads=1)
    with pytest.raises(BundleError, match=r"cannot be read back .*deberta-v2, not bert"):
        load_rag_model(read_bundle(out))
