"""DeBERTa in OpenVINO: relative positions and padding, in fp32, int8 and bf16."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import transformers

from trivet.backends.example_windows import Sizes, make_windows
from trivet.backends.openvino import OpenVinoBackend
from trivet.data.windows import Windows

WINDOW = 48
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None, reason="needs OpenVINO"
)


def padded_anywhere(vocab: int) -> list[Windows]:
    """Windows with real keys at the front, in the middle, at the end, and one alone."""
    cases = []
    for seed, length in enumerate((1, 2, 31, 33, WINDOW)):
        windows = make_windows(Sizes(N=4, L=length, B=1, R=5, K=2, C=9, S=2), vocab, seed)
        places = np.arange(length)
        masks = (places >= 0, places >= length // 2, places % 3 == 0, places == length - 1)
        cases.append(windows._replace(attention_mask=np.stack(masks).astype(np.int64)))
    return cases


def test_it_answers_as_the_library_does_under_any_padding(
    tiny_deberta: transformers.DebertaV2Model, tmp_path: Path, one_thread: None
) -> None:
    import onnx
    import torch

    from trivet.exporting.graph import trace
    from trivet.exporting.int8 import quantize
    from trivet.model.inference.rag_inference import inference_model
    from trivet.model.rag_model import RagModel, as_tensors
    from trivet.model.trunk import Trunk

    torch.manual_seed(3)
    model = RagModel(Trunk(tiny_deberta)).eval()
    vocab = int(tiny_deberta.config.vocab_size)
    onnx.save(trace(inference_model(model, WINDOW), vocab), tmp_path / "model.onnx")
    graph = trace(inference_model(model, WINDOW, "runtime"), vocab)
    onnx.save(quantize(graph), tmp_path / "model.int8.onnx")
    for file, bf16, most in (
        ("model.onnx", False, 1e-4),
        ("model.onnx", True, 0.02),
        ("model.int8.onnx", False, 0.05),
        ("model.int8.onnx", True, 0.05),
    ):
        backend = OpenVinoBackend(tmp_path / file, window=WINDOW, bf16=bf16, threads=1)
        for windows in padded_anywhere(vocab):
            with torch.inference_mode():
                expected = model(*as_tensors(windows))
            found = backend.run(windows)
            for name in ("support_probs", "relevance_probs", "utilization_probs", "relevance"):
                have = getattr(found, name)
                assert np.isfinite(have).all(), (file, bf16, name)
                off = np.abs(have - getattr(expected, name).numpy()).max()
                assert off <= most, (file, bf16, name, windows.input_ids.shape)
