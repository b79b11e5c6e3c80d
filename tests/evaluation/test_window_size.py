"""A bundle of several window lengths: each example has its own, and the verdict says which."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judges import outputs_of
from trivet.bundle.bundle import BundleInfo, GraphInfo, WindowInfo, write_bundle
from trivet.bundle.schema import parse_info
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs
from trivet.records import BundleError, RagExample

LENGTHS = WindowInfo(size=96, sizes=(48, 96), break_even=200)
PASSAGE = "The keeper of the lighthouse had a lamp. The lamp was red. The boat was not old. "


class Widths:
    """An engine that finds everything likely, and remembers how wide its windows were."""

    name = "widths"

    def __init__(self) -> None:
        self.widest = 0

    def run(self, windows: Windows) -> Outputs:
        self.widest = max(self.widest, int(windows.attention_mask.sum(axis=1).max()))
        likely = np.full(windows.input_ids.shape, 0.75)
        return outputs_of(windows, likely, likely, likely, "weakest_sentence")


@pytest.fixture
def info(tiny_info: Callable[[SegmentTokenizer], BundleInfo], wordpiece_file: Path) -> BundleInfo:
    graph = GraphInfo(file="model.onnx", precision="fp32", opset=20, portable=True)
    tiny = tiny_info(SegmentTokenizer.from_file(wordpiece_file))
    return tiny.model_copy(update={"window": LENGTHS, "graphs": (graph,)})


def test_each_example_is_read_with_its_own_length(
    info: BundleInfo, wordpiece_file: Path, tmp_path: Path
) -> None:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    folder = tmp_path / "bundle"
    write_bundle(folder, info, tokenizer.to_json(), extra={"model.onnx": b"never opened"})
    engine = Widths()
    evaluator = Evaluator(folder, backend=engine)
    contexts, long = (PASSAGE * 6,), "The lamp was red and the boat was not old. " * 2
    short = evaluator.evaluate("What?", contexts, "Red.")
    assert (short.window_size, engine.widest) == (48, 48)
    wide = evaluator.evaluate("What?", contexts, long)
    assert wide.window_size == 96 and 48 < engine.widest <= 96
    assert wide.response_chunks == 1 and wide.windows >= 2
    # Together they are packed into the same calls, and each is still what it was alone.
    both = [RagExample("What?", contexts, "Red."), RagExample("What?", contexts, long)]
    assert list(evaluator.evaluate_many(both)) == [short, wide]
    assert json.loads(wide.to_json())["window_size"] == 96


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [96, 48]}, r"window\.sizes \[96, 48\] must rise"),
        ({"sizes": [32, 48]}, r"the last must be window\.size \(96\)"),
        ({"break_even": None}, r"window\.break_even is missing"),
        ({"break_even": 0}, r"window\.break_even"),
    ],
)
def test_lengths_that_make_no_sense_are_refused(
    info: BundleInfo, change: dict[str, Any], message: str
) -> None:
    raw = json.loads(info.to_json())
    assert parse_info(json.dumps(raw).encode(), "bundle.json").window == LENGTHS
    raw["window"] |= change
    with pytest.raises(BundleError, match=message):
        parse_info(json.dumps(raw).encode(), "bundle.json")


def test_a_bundle_that_knows_one_length_reads_as_before(info: BundleInfo) -> None:
    raw = json.loads(info.to_json())
    raw["window"] = {"size": 512, "stride_overlap": 0}
    window = parse_info(json.dumps(raw).encode(), "bundle.json").window
    assert (window.sizes, window.break_even) == ((), None)
