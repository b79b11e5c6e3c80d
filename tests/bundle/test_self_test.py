"""The self-test is stored exactly and refuses answers that differ too much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trivet.bundle.schema import INPUTS, OUTPUTS
from trivet.bundle.self_test import SelfTest, read_self_test
from trivet.errors import BundleError


def answers(shift: float = 0.0) -> dict[str, Any]:
    return {info.name: np.full((2,) * len(info.dims), 0.25 + shift) for info in OUTPUTS[:-1]}


@pytest.fixture
def self_test() -> SelfTest:
    inputs = {
        info.name: np.ones((2,) * len(info.dims), np.int64 if info.dtype == "int64" else np.float32)
        for info in INPUTS
    }
    stored = {"model.onnx": ("fp32", answers()), "model.int8.onnx": ("int8", answers())}
    return SelfTest.record(inputs, stored)


def test_the_self_test_survives_a_file(tmp_path: Path, self_test: SelfTest) -> None:
    (tmp_path / "self_test.json").write_text(self_test.to_json())
    read = read_self_test(tmp_path / "self_test.json")
    assert read == self_test
    assert read.arrays()["input_ids"].dtype == np.int64
    assert read.arrays()["sentence_pool"].shape == (2, 2, 2)


def test_the_self_test_knows_how_much_is_too_much(self_test: SelfTest) -> None:
    assert self_test.check("model.int8.onnx", answers(0.015)) == pytest.approx(0.015)
    with pytest.raises(BundleError, match=r"model\.onnx: self-test: answers differ by 0\.015"):
        self_test.check("model.onnx", answers(0.015))
    with pytest.raises(BundleError, match=r"at most 0\.02 at int8"):
        self_test.check("model.int8.onnx", answers(0.03))
    with pytest.raises(BundleError, match="not finite"):
        self_test.check("model.onnx", answers(float("nan")))
    with pytest.raises(BundleError, match="shape"):
        self_test.check("model.onnx", answers() | {"faithfulness": np.zeros(3)})
    with pytest.raises(BundleError, match=r"no answers of model\.safetensors"):
        self_test.check("model.safetensors", answers())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "use a newer trivet"),
        ({"inputs": {}}, "holds"),
        ({"expected": {}}, "not a self-test"),
        ({"more": 1}, "not a self-test"),
    ],
)
def test_a_strange_self_test_is_refused(
    tmp_path: Path, self_test: SelfTest, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "self_test.json"
    path.write_text(json.dumps(json.loads(self_test.to_json()) | change))
    with pytest.raises(BundleError, match=message):
        read_self_test(path)
