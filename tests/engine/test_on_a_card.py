"""The whole way on a true card: build, parity, and how long a call takes. Needs TensorRT."""

from __future__ import annotations

import dataclasses
import logging
import time
from pathlib import Path

import numpy as np
import pytest

from trivet.backends.example_windows import Sizes, make_windows
from trivet.backends.tensorrt_loading import load_engine
from trivet.bundle.bundle import read_bundle
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting.qdq import EightBit
from trivet.exporting.quantized import PRECISIONS, export_quantized
from trivet.exporting.tensorrt import export_tensorrt
from trivet.records import Evaluation, LabelledExample, RagExample

logger = logging.getLogger(__name__)

pytestmark = pytest.mark.gpu


def test_an_engine_is_built_and_answers_as_fp32_does(
    engine_bundle: Path, rag_examples: tuple[RagExample, ...]
) -> None:
    info = export_tensorrt(engine_bundle, "bf16", rag_examples)
    assert info.difference <= 0.01 and info.flipped == 0
    on_card, on_cpu = Evaluator(engine_bundle, backend="tensorrt"), Evaluator(engine_bundle)
    for one, other in zip(
        on_cpu.evaluate_many(rag_examples), on_card.evaluate_many(rag_examples), strict=True
    ):
        assert isinstance(one, Evaluation) and isinstance(other, Evaluation)
        assert one.adherent == other.adherent


def test_a_replayed_call_is_no_slower_than_the_first(engine_bundle: Path) -> None:
    export_tensorrt(engine_bundle, "bf16")
    backend = load_engine(read_bundle(engine_bundle))
    windows = make_windows(Sizes(N=2, L=96, B=1, R=20, K=2, C=100, S=1), 100, seed=0)
    seconds = []
    for _ in range(50):
        began = time.perf_counter()
        first = backend.run(windows)
        seconds.append(time.perf_counter() - began)
    assert np.median(seconds[10:]) <= seconds[0]
    logger.info("two windows of 96: %.3f ms", 1e3 * float(np.median(seconds[10:])))
    assert np.isfinite(first.support_probs).all()


@pytest.mark.parametrize("kind", ["int8", "fp8"])
def test_an_engine_in_eight_bits_is_built_and_near_fp32(
    kind: EightBit,
    engine_bundle: Path,
    labelled_examples: tuple[LabelledExample, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trivet.exporting.quantized_rows.MOST_LOSS", 1.0)  # of random weights
    rows = [dataclasses.replace(row, source="tiny/set") for row in labelled_examples]
    export_quantized(engine_bundle, kind, rows, "tiny", "dev")
    info = export_tensorrt(engine_bundle, PRECISIONS[kind], labelled=rows)
    logger.info("%s: %.3f from fp32, %d verdicts flipped", kind, info.difference, info.flipped)
    load_engine(read_bundle(engine_bundle), PRECISIONS[kind])  # with its self-test
