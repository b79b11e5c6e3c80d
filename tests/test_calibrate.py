"""Calibration: by hand, against a known truth, and end to end on a tiny bundle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from trivet.calibrate import calibrate, fit_platt, fold
from trivet.data.module import collate_items, prepare
from trivet.data.reading import read_examples
from trivet.data.tokens import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.heads.token_head import TokenHead
from trivet.model.bundle import BundleInfo, GraphInfo, read_bundle, write_bundle
from trivet.model.bundle_weights import load_rag_model
from trivet.model.initial import initial_model
from trivet.records import DataError, LabelledExample, Labels, RagExample

PASSAGE = "The mill grinds flour. The ferry is red. The lamp is lit at dusk. A bridge opened."


def test_a_fit_finds_the_scale_and_shift_that_made_the_marks() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(size=40_000).astype(np.float32) * 2
    marks = (random.random(40_000) < 1 / (1 + np.exp(-(0.5 * logits - 1)))).astype(np.int64)
    scale, shift = fit_platt(logits, marks, np.ones(40_000, np.float32), what="made up")
    assert scale == pytest.approx(0.5, abs=0.03)
    assert shift == pytest.approx(-1.0, abs=0.05)


def test_unknown_marks_and_weights_of_zero_do_not_count() -> None:
    logits = np.array([2.0, 1.0, -1.0, -2.0, 50.0, 60.0], dtype=np.float32)
    marks = np.array([1, 0, 1, 0, -1, 0])
    weights = np.array([1, 1, 1, 1, 1, 0], dtype=np.float32)
    all_of_them = fit_platt(logits, marks, weights, what="made up")
    assert all_of_them == pytest.approx(fit_platt(logits[:4], marks[:4], weights[:4], "the four"))


def test_marks_that_cannot_be_fitted_are_refused_by_name() -> None:
    logits, ones = np.array([1.0, 2.0, 3.0], np.float32), np.ones(3, np.float32)
    with pytest.raises(DataError, match=r"relevance in dev: needs tokens marked 1 and .* marked 0"):
        fit_platt(logits, np.array([1, 1, -1]), ones, what="relevance in dev")
    with pytest.raises(DataError, match="run against the logits"):
        fit_platt(logits, np.array([1, 0, 0]), ones, what="relevance in dev")


def test_a_folded_head_answers_the_scaled_and_shifted_logit() -> None:
    head, hidden = TokenHead(4, 1), torch.arange(8.0).reshape(2, 4)
    with torch.no_grad():
        before = head(hidden)
        fold(head, 0.5, -0.25)
        assert torch.allclose(head(hidden), before * 0.5 - 0.25, atol=1e-6)


@pytest.fixture
def bundle(
    tmp_path: Path, bert_checkpoint: Path, tiny_info: Callable[[SegmentTokenizer], BundleInfo]
) -> Path:
    """Write a bundle of a two-layer model with random heads; a stale graph stands beside it."""
    torch.manual_seed(0)
    model, tokenizer = initial_model(str(bert_checkpoint), "plain", "weakest_sentence")
    graph = GraphInfo(file="model.onnx", precision="fp32", opset=20, portable=True)
    write_bundle(
        tmp_path / "bundle",
        tiny_info(tokenizer).model_copy(update={"graphs": (graph,)}),
        tokenizer.to_json(),
        weights=model.state_dict(),
        encoder_config=model.architecture(),
        extra={"model.onnx": b"of the old weights"},
    )
    return tmp_path / "bundle"


def test_a_source_without_rows_is_refused(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="no row in split 'all' to calibrate on"):
        calibrate(bundle, [f"jsonl:{tmp_path / 'empty.jsonl'}"], split="all")


def test_a_bundle_is_calibrated_and_its_old_graph_is_gone(bundle: Path, tmp_path: Path) -> None:
    model = load_rag_model(read_bundle(bundle))
    tokenizer = SegmentTokenizer.from_file(bundle / "tokenizer.json")
    example = RagExample("Who?", (PASSAGE,), "The mill.")
    nothing = LabelledExample(example, Labels(), source="tiny", group="0")
    (item,) = prepare([nothing], tokenizer, WindowSettings(48))
    windows = collate_items([item], tokenizer.special.pad).windows
    with torch.no_grad():
        outputs = model(*windows)
    (read,) = read_examples([example], tokenizer)
    labels = {}
    for name, probs in (
        ("relevant", outputs.relevance_probs),
        ("utilized", outputs.utilization_probs),
    ):
        # The marks follow the head's own opinion, so that a fit exists on random weights.
        start, end = read.context.offsets[int(probs[0].argmax())].tolist()
        labels[name] = [[0, start, end]]
    row = {"question": "Who?", "contexts": [PASSAGE], "response": "The mill.", "labels": labels}
    data = tmp_path / "rows.jsonl"
    data.write_text(json.dumps(row), encoding="utf-8")

    found = calibrate(bundle, [f"jsonl:{data}"], split="all")

    info, before = read_bundle(bundle).info, model.state_dict()
    after = load_rag_model(read_bundle(bundle)).state_dict()
    assert info.calibration == found
    assert found.method == "platt" and set(found.heads) == {"relevance", "utilization"}
    assert info.graphs == () and not (bundle / "model.onnx").exists()
    for name, head in found.heads.items():
        weight = f"heads.{name}.classifier.weight"
        assert torch.allclose(after[weight], before[weight] * head.scale)
    support = "heads.support.classifier.weight"
    assert torch.equal(after[support], before[support])
