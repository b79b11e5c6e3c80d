"""The torch backend: equal to the graphs, padded to few shapes, refused by name."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.graphs import VOCAB, WINDOW, model_of
from trivet.backends import torch as torch_backend
from trivet.backends.opening import load_backend
from trivet.backends.torch import TorchBackend, compile_layers
from trivet.bundle.bundle import read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.errors import BackendError, BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting.parity import compare, grid_windows
from trivet.model.inference.layer import Form
from trivet.records import Evaluation, RagExample
from trivet.settings import Precision

KINDS = pytest.mark.parametrize("kind", ["bert", "deberta-v2", "mpnet", "modernbert"])
OWN_WARNINGS = pytest.mark.filterwarnings("ignore")  # torch's, when its compiler is loaded


def backend_of(kind: str, precision: Precision = "fp32", **options: Any) -> TorchBackend:
    return TorchBackend(copy.deepcopy(model_of(kind)), WINDOW, "cpu", precision, **options)


def difference(first: TorchBackend, other: TorchBackend) -> float:
    """Return the largest difference of two backends over the grid of shapes."""
    report = compare(
        lambda windows: first.run(windows).present(),
        {"other": lambda windows: other.run(windows).present()},
        grid_windows(WINDOW, VOCAB),
    )
    return report.worst["other"]


@KINDS
@pytest.mark.parametrize(
    ("form", "precision", "most"),
    [("fused", "fp32", 1e-5), ("fused", "bf16", 0.1), ("portable", "fp16", 0.02)],
)
def test_every_form_and_precision_answers_like_fp32(
    kind: str, form: Form, precision: Precision, most: float
) -> None:
    assert difference(backend_of(kind), backend_of(kind, precision, form=form)) <= most


def test_replayed_calls_answer_as_direct_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    class Replay:
        """A CUDA graph on the CPU: computes again, from the same inputs to the same outputs."""

        def replay(self) -> None:
            recorded = replayed._recorded[self.shape]
            for name, values in replayed._read(recorded.inputs).items():
                recorded.logits[name].copy_(values)

        def __init__(self, shape: tuple[int, int]) -> None:
            self.shape = shape

    def record(shape: tuple[int, int]) -> object:
        inputs = tuple(torch.zeros(shape, dtype=torch.int64) for _ in range(3))
        graph: Any = Replay(shape)
        return torch_backend._Recorded(graph, inputs, replayed._read(inputs))

    replayed = backend_of("bert")
    monkeypatch.setattr(replayed, "_replayed", True)
    monkeypatch.setattr(replayed, "_record", record)
    assert difference(backend_of("bert"), replayed) <= 1e-5
    assert len(replayed._recorded) < len(grid_windows(WINDOW, VOCAB))


@pytest.mark.slow
@OWN_WARNINGS
@KINDS
def test_compiled_layers_answer_as_others(kind: str) -> None:
    compiled = backend_of(kind, form="fused")
    compile_layers(compiled._model)
    assert difference(backend_of(kind), compiled) <= 1e-5


def test_the_evaluator_runs_it(tiny_bundle: Path, rag_examples: tuple[RagExample, ...]) -> None:
    in_torch = Evaluator(tiny_bundle, 1, backend="torch", device="cpu")
    assert (in_torch.backend_name, in_torch.precision) == ("torch fp32 on cpu", "fp32")
    in_onnx = Evaluator(tiny_bundle, 1, precision="fp32", backend="onnx")
    for output, other in zip(
        in_onnx.evaluate_many(rag_examples), in_torch.evaluate_many(rag_examples), strict=True
    ):
        assert isinstance(output, Evaluation) and isinstance(other, Evaluation)
        assert other.faithfulness == pytest.approx(output.faithfulness, abs=1e-4)
        assert other.relevance == pytest.approx(output.relevance, abs=1e-4)


def test_weights_of_the_embedded_graph_pass_its_self_test() -> None:
    assert load_backend(read_bundle(EMBEDDED_BUNDLE), 1, backend="torch", device="cpu")


def test_what_torch_cannot_run_is_refused(tiny_bundle: Path) -> None:
    bundle = read_bundle(tiny_bundle)
    with pytest.raises(BundleError, match="torch does not run int8"):
        load_backend(bundle, 1, "int8", "torch")
    backend = load_backend(bundle, 1, backend="torch", device="cpu").backend
    (_, windows), *_ = grid_windows(WINDOW, VOCAB)
    with pytest.raises(BackendError, match=r"torch fp32 on cpu failed on 1x1 window positions"):
        backend.run(windows._replace(input_ids=windows.input_ids + 10**6))


def test_a_gpu_without_memory_is_a_backend_error(
    tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch_backend, "inference_model", fail)
    with pytest.raises(BackendError, match=r"torch cannot load .* on cpu: CUDA out of memory"):
        load_backend(read_bundle(tiny_bundle), 1, backend="torch", device="cpu")


@pytest.mark.gpu
@KINDS
@pytest.mark.parametrize(("precision", "most"), [("fp32", 1e-3), ("fp16", 0.02), ("bf16", 0.1)])
@pytest.mark.parametrize("form", ["portable", "fused"])
def test_a_gpu_answers_like_the_cpu(
    kind: str, precision: Precision, most: float, form: Form
) -> None:
    model = copy.deepcopy(model_of(kind))
    on_gpu = TorchBackend(model, WINDOW, "cuda", precision, form=form)
    assert difference(backend_of(kind), on_gpu) <= most
    assert difference(backend_of(kind), on_gpu) <= most  # replayed


@pytest.mark.gpu
def test_a_gpu_is_taken_by_default(tiny_bundle: Path, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(tiny_bundle, tmp_path / "bundle"))
    assert Evaluator(bundle).backend_name.startswith("torch fp16 on NVIDIA")
    assert Evaluator(bundle, device="cpu").backend_name == "onnxruntime model.int8.onnx"
