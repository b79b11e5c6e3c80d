"""Weights read back from an int8 graph round to the same integers again."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.graphs import (
    LAYERS,
    exported_bundle,
    model_of,
    shared_graphs,
    write_tiny,
)
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.opening import load_backend
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.bundle import SELF_TEST_NAME, WEIGHTS_NAME, add_files, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.self_test import read_self_test
from trivet.bundle.weights import load_rag_model
from trivet.data.windows import Windows
from trivet.errors import BundleError
from trivet.export import export_onnx
from trivet.model.rag_model import RagModel, as_tensors, to_numpy


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "prefix"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RagModel, Path]:
    """Return a model and the serving bundle that was exported from it."""
    model = RagModel(copy.deepcopy(model_of("bert").trunk)).eval()
    if request.param:
        model.add_exact_match()
        model.use_prefix_attention()
    for parameter in model.parameters():  # the export stores equal tensors, as of zeros, once
        torch.nn.init.normal_(parameter, std=0.1)
    folder = tmp_path_factory.mktemp("served")
    write_tiny(folder / "weights", model)
    export_onnx(folder / "weights", folder / "served", threads=1)
    return model, folder / "served"


def steps(weight: torch.Tensor, largest: int) -> torch.Tensor:
    """Return a weight [O, I] in steps of int8, of which each row has a size of its own."""
    return weight / (weight.abs().amax(dim=1, keepdim=True) / largest)


def test_weights_round_to_the_same_integers(served: tuple[RagModel, Path]) -> None:
    model, out = served
    again = load_rag_model(read_bundle(out))
    before, after = model.state_dict(), again.state_dict()
    assert after.keys() == before.keys()
    matches = any("matches" in name for name in before)
    assert again.architecture().matches == matches
    assert again.prefix_attention == matches
    rounded = 0
    for name, weight in after.items():
        matmul = ".layer." in name and weight.ndim == 2
        if matmul or "word_embeddings" in name:
            largest = 64 if matmul else 127
            stepped = steps(weight, largest)
            torch.testing.assert_close(stepped, stepped.round(), atol=1e-3, rtol=0, msg=name)
            assert stepped.round().equal(steps(before[name], largest).round()), name
            rounded += 1
        else:  # other tensors stay as they were
            torch.testing.assert_close(weight, before[name], atol=1e-6, rtol=1e-5, msg=name)
    assert rounded == 1 + 6 * LAYERS


def test_weights_that_are_read_back_answer_as_at_export(
    served: tuple[RagModel, Path], tmp_path: Path
) -> None:
    out = Path(shutil.copytree(served[1], tmp_path / "served"))
    bundle = read_bundle(out)
    test = read_self_test(bundle.path(SELF_TEST_NAME))
    with torch.inference_mode():
        answers = to_numpy(load_rag_model(bundle)(*as_tensors(Windows(**test.arrays()))))
    assert test.check(WEIGHTS_NAME, answers.present()) < 1e-5
    assert load_backend(bundle, 1, backend="torch", device="cpu").precision == "fp32"
    other = answers._replace(faithfulness=answers.faithfulness - 0.01)
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
        answers = model(*as_tensors(windows))
    for name, theirs in expected.present().items():
        atol = 0.04 if name == "evidence_states" else 0.03  # states are not probabilities
        np.testing.assert_allclose(getattr(answers, name).numpy(), theirs, atol=atol, err_msg=name)


def test_an_int8_graph_of_another_encoder_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "served"
    with shared_graphs():
        export_onnx(exported_bundle("deberta-v2"), out, threads=1)
    with pytest.raises(BundleError, match=r"cannot be read back .*deberta-v2, not bert"):
        load_rag_model(read_bundle(out))
