"""The self-test is stored exactly and refuses answers that differ too much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trivet.bundle.info import INPUTS, OUTPUTS
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


def test_states_are_compared_as_means_over_positions() -> None:
    states = np.random.default_rng(0).normal(size=(2, 40, 4)).astype(np.float32)

    def outputs(array: Any) -> dict[str, Any]:
        return answers() | {"evidence_states": array}

    test = SelfTest.record({}, {"model.int8.onnx": ("int8", outputs(states))})
    stored = test.expected["model.int8.onnx"].outputs["evidence_states"].array(np.float32)
    np.testing.assert_allclose(stored[:, 2], states[:, 32:].mean(axis=1), atol=1e-6)
    changed = states.copy()
    changed[0, 3, 1] += 0.16
    assert test.check("model.int8.onnx", outputs(changed)) == pytest.approx(0.01, abs=1e-4)
    changed[0, 4:7, 1] += 0.16
    with pytest.raises(BundleError, match=r"differ by 0\.04"):
        test.check("model.int8.onnx", outputs(changed))
    changed[1, 5, 2] = np.nan
    with pytest.raises(BundleError, match="not finite"):
        test.check("model.int8.onnx", outputs(changed))


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
