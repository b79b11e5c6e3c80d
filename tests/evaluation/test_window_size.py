"""A bundle of several window sizes: each example has one, which its verdict names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.judges import FormulaBackend, approximately
from trivet.bundle.bundle import parse_info, write_bundle
from trivet.bundle.schema import BundleInfo, GraphInfo
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.errors import BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation, RagExample

LENGTHS = WindowSettings(size=96, sizes=(48, 96), break_even=200)
PASSAGE = "The keeper of the lighthouse had a lamp. The lamp was red. The boat was not old. "


@pytest.fixture
def info(
    tiny_info: Callable[[SegmentTokenizer], BundleInfo], tokenizer: SegmentTokenizer
) -> BundleInfo:
    graph = GraphInfo(file="model.onnx", precision="fp32", opset=20, portable=True)
    return tiny_info(tokenizer).model_copy(update={"window": LENGTHS, "graphs": (graph,)})


def test_each_example_is_read_with_its_own_length(
    info: BundleInfo, tokenizer: SegmentTokenizer, tmp_path: Path, formula: FormulaBackend
) -> None:
    folder = tmp_path / "bundle"
    write_bundle(folder, info, tokenizer.to_json(), extra={"model.onnx": b"never opened"})
    evaluator = Evaluator(folder, backend=formula)
    contexts, long = (PASSAGE * 6,), "The lamp was red and the boat was not old. " * 2
    short = evaluator.evaluate("What?", contexts, "Red.")
    assert short.window_size == 48 == max(length for _, length in formula.calls)
    wide = evaluator.evaluate("What?", contexts, long)
    assert wide.window_size == 96 and 48 < max(length for _, length in formula.calls) <= 96
    assert wide.response_chunks == 1 and wide.windows >= 2
    # Together they are packed into the same calls, and each is still what it was alone.
    both = [RagExample("What?", contexts, "Red."), RagExample("What?", contexts, long)]
    for found, alone in zip(evaluator.evaluate_many(both), [short, wide], strict=True):
        assert isinstance(found, Evaluation)
        assert found.to_dict() == approximately(alone.to_dict(), 1e-6)


def test_lengths_that_make_no_sense_are_refused(info: BundleInfo) -> None:
    raw = json.loads(info.to_json())
    assert parse_info(json.dumps(raw).encode(), "bundle.json").window == LENGTHS
    raw["window"]["sizes"] = [96, 48]
    with pytest.raises(BundleError, match=r"window\.sizes \(96, 48\) must rise"):
        parse_info(json.dumps(raw).encode(), "bundle.json")
    one_length = raw | {"window": {"size": 512, "stride_overlap": 0}}
    window = parse_info(json.dumps(one_length).encode(), "bundle.json").window
    assert (window.sizes, window.break_even) == ((), None)
