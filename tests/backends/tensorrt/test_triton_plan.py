"""A Triton repository takes the engine that this machine built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from trivet.bundle.bundle import read_bundle
from trivet.exporting.tensorrt_export import export_tensorrt
from trivet.records import LabelledExample
from trivet.serve.triton.repository import export_triton

pytestmark = pytest.mark.usefixtures("fake_tensorrt")


def read_config(folder: Path) -> Any:
    text = (folder / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_the_plan_is_the_one_in_the_cache(
    engine_bundle: Path, own_cache: Path, tmp_path: Path, dev_rows: tuple[LabelledExample, ...]
) -> None:
    info = export_tensorrt(engine_bundle, dev_rows, "tiny")
    out = tmp_path / "repository"
    export_triton(engine_bundle, out, "tensorrt")
    config = read_config(out / "encoder")
    (plan,) = (out / "encoder" / "1").iterdir()
    assert plan.name == "model.sm89.plan"
    assert plan.read_bytes() == (own_cache / f"{info.key}.engine").read_bytes()
    assert dict(config.cc_model_filenames) == {"8.9": plan.name}
    assert len(config.instance_group[0].profile) == len(info.profiles)
    judge = read_config(out / "trivet")
    parameters = {name: value.string_value for name, value in judge.parameters.items()}
    assert (parameters["encoder_kind"], parameters["graph"]) == ("tensorrt", "model.fp16.onnx")
    assert parameters["encoder_inputs"].split(",") == [tensor.name for tensor in config.input]
    # The bundle tells trivet how to pad windows to the profiles.
    copied = read_bundle(out / "trivet" / "1" / "bundle")
    assert copied.info.engines == (info,)
    assert [graph.file for graph in copied.info.graphs] == ["model.fp16.onnx"]
