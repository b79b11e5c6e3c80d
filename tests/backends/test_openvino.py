"""OpenVINO answers as ONNX Runtime does, from the same files, and refuses unsuitable models."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from tests import graphs
from tests.judges import kept_for_openvino
from trivet.backends import openvino
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.opening import load_backend
from trivet.backends.openvino import OpenVinoBackend, choose_for_openvino
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.bundle import Bundle, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting.graph import OPSET, trace
from trivet.exporting.int8 import quantize
from trivet.exporting.parity import grid
from trivet.heads import EVIDENCE_STATES, HEAD_NAMES
from trivet.model.aggregate import Outputs
from trivet.model.architecture import Architecture
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel, as_tensors, to_numpy
from trivet.settings import Precision

WINDOW, VOCAB = 48, 150
needs_openvino = pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None, reason="needs OpenVINO"
)


def largest_difference(first: Outputs, other: Outputs) -> float:
    pairs = zip(first.present().values(), other.present().values(), strict=True)
    return max(float(np.abs(left - right).max(initial=0.0)) for left, right in pairs)


def windows_of(sizes: Sizes, seed: int = 0) -> Windows:
    return make_windows(sizes, VOCAB, seed)


@pytest.fixture(scope="module")
def loaded(tiny_bundle: Path) -> dict[str, OpenVinoBackend]:
    files = ("model.onnx", "model.int8.onnx")
    return {f: OpenVinoBackend(tiny_bundle / f, window=WINDOW, threads=1) for f in files}


@needs_openvino
@pytest.mark.parametrize(("file", "most"), [("model.onnx", 1e-4), ("model.int8.onnx", 0.01)])
def test_a_graph_answers_as_in_onnx_runtime_on_every_shape(
    tiny_bundle: Path, loaded: dict[str, OpenVinoBackend], file: str, most: float
) -> None:
    runtime = OnnxRuntimeBackend(tiny_bundle / file, 1)
    for seed, sizes in enumerate(grid(WINDOW)):
        windows = windows_of(sizes, seed)
        answer = loaded[file].run(windows)
        assert all(array.dtype == np.float32 for array in answer.present().values())
        assert largest_difference(answer, runtime.run(windows)) <= most, sizes


@needs_openvino
@pytest.mark.parametrize("kind", ["bert", "deberta-v2", "mpnet", "modernbert"])
def test_an_encoder_answers_as_the_weights_do_under_any_padding(tmp_path: Path, kind: str) -> None:
    onnx.save(graphs.graph_of(kind), tmp_path / "model.onnx")
    onnx.save(quantize(graphs.graph_of(kind, "runtime")), tmp_path / "model.int8.onnx")
    cases = []
    for seed, length in enumerate((1, 2, 31, 33, WINDOW)):
        windows = make_windows(Sizes(N=4, L=length, B=1, R=5, K=2, C=9, S=2), graphs.VOCAB, seed)
        places = np.arange(length)
        # Real keys everywhere, at the end, here and there, and one alone.
        masks = (places >= 0, places >= length // 2, places % 3 == 0, places == length - 1)
        windows = windows._replace(attention_mask=np.stack(masks).astype(np.int64))
        with torch.inference_mode():
            expected = graphs.model_of(kind)(*as_tensors(windows))
        cases.append((windows, to_numpy(expected)))
    for file, bf16, most in (
        ("model.onnx", False, 1e-4),
        ("model.onnx", True, 0.02),
        ("model.int8.onnx", False, 0.05),
        ("model.int8.onnx", True, 0.05),
    ):
        backend = OpenVinoBackend(tmp_path / file, window=WINDOW, bf16=bf16, threads=1)
        for windows, answer in cases:
            outputs = backend.run(windows)
            case = (file, bf16, windows.input_ids.shape)
            assert all(np.isfinite(array).all() for array in outputs.present().values()), case
            assert largest_difference(outputs, answer) <= most, case


@needs_openvino
def test_states_of_positions_are_those_of_the_windows_without_padding(tmp_path: Path) -> None:
    model = RagModel(graphs.model_of("bert").trunk, Architecture(heads=HEAD_NAMES)).eval()
    shape = inference_model(model, graphs.WINDOW)
    graph = trace(shape, graphs.VOCAB, OPSET, heads=HEAD_NAMES)
    onnx.save(graph, tmp_path / "model.onnx")
    backend = OpenVinoBackend(tmp_path / "model.onnx", window=graphs.WINDOW, threads=1)
    for length in (7, 33, graphs.WINDOW):
        sizes = Sizes(N=2, L=length, B=1, R=5, K=2, C=9, S=2)
        windows = make_windows(sizes, graphs.VOCAB, seed=0)
        with torch.inference_mode():
            expected = to_numpy(model(*as_tensors(windows)))
        assert expected.evidence_states.shape == (2, length, EVIDENCE_STATES)
        assert largest_difference(backend.run(windows), expected) <= 1e-4


@needs_openvino
def test_the_bundle_of_the_package_passes_its_self_test() -> None:
    assert load_backend(read_bundle(EMBEDDED_BUNDLE), 1, None, "openvino").backend.name.startswith(
        "openvino"
    )


def with_wide_weights(bundle: Bundle) -> Bundle:
    """Return a bundle whose int8 weights are not known to be small."""
    graphs = tuple(graph.model_copy(update={"sums_fit": False}) for graph in bundle.info.graphs)
    return dataclasses.replace(bundle, info=bundle.info.model_copy(update={"graphs": graphs}))


@needs_openvino
def test_where_int8_sums_overflow_there_is_fp32_or_nothing(
    tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openvino, "quick_sums_overflow", lambda: True)
    tiny, shipped = read_bundle(tiny_bundle), read_bundle(EMBEDDED_BUNDLE)
    assert choose_for_openvino(tiny, None).precision == "int8"
    assert choose_for_openvino(shipped, None).precision == "int8"
    wide, wide_alone = with_wide_weights(tiny), with_wide_weights(shipped)
    assert load_backend(wide, 1, None, "openvino").backend.name == "openvino model.onnx"
    cases: tuple[tuple[Bundle, Precision | None], ...] = ((wide, "int8"), (wide_alone, None))
    for bundle, precision in cases:
        with pytest.raises(BundleError, match=r"int8\.onnx: int8 sums overflow .*--backend onnx"):
            load_backend(bundle, 1, precision, "openvino")
    monkeypatch.setattr(openvino, "quick_sums_overflow", lambda: False)
    assert choose_for_openvino(wide, None).precision == "int8"


@pytest.mark.parametrize(("exact_there", "overflow_here"), [(1, 1), (1, 0), (0, 1), (0, 0)])
def test_int8_that_was_measured_runs_where_sums_are_as_good_as_there(
    tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch, exact_there: int, overflow_here: int
) -> None:
    bundle = read_bundle(tiny_bundle)
    kept = kept_for_openvino("dynamic", "model.int8.onnx")
    kept = kept.model_copy(update={"exact_sums": bool(exact_there)})
    wide = with_wide_weights(bundle)
    chosen = dataclasses.replace(wide, info=wide.info.model_copy(update={"openvino": kept}))
    monkeypatch.setattr(openvino, "quick_sums_overflow", lambda: bool(overflow_here))
    choice = choose_for_openvino(chosen, None)
    assert choice.exported == (not (exact_there and overflow_here))
    assert choice.precision == ("int8" if choice.exported else "fp32")


@needs_openvino
def test_ids_beyond_the_vocabulary_are_refused(loaded: dict[str, OpenVinoBackend]) -> None:
    windows = windows_of(Sizes(N=2, L=20, B=1, R=8, K=2, C=30, S=2))
    for backend in loaded.values():
        for wrong in (10**6, -1):
            ids = windows.input_ids.copy()
            ids[1, 3] = wrong
            with pytest.raises(BackendError, match=r"failed on 2x20 .* token ids .*another model"):
                backend.run(windows._replace(input_ids=ids))


@needs_openvino
def test_what_cannot_be_loaded_is_refused_by_name(tmp_path: Path, tiny_bundle: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(BundleError, match=r"model\.onnx: OpenVINO refuses it"):
        OpenVinoBackend(tmp_path / "model.onnx", window=WINDOW)
    graphs.write_other_graph(tmp_path / "m.onnx")
    with pytest.raises(BundleError, match=r"m\.onnx: its inputs do not fit: .*unknown text"):
        OpenVinoBackend(tmp_path / "m.onnx", window=WINDOW)
    with pytest.raises(ValueError, match=r"threads \(0\) must be at least 1"):
        OpenVinoBackend(tiny_bundle / "model.onnx", window=WINDOW, threads=0)
    with pytest.raises(BundleError, match=r"no bf16 for OpenVINO; .*trivet export"):
        Evaluator(tiny_bundle, backend="openvino", precision="bf16")
