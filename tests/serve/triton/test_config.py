"""Configs of both Triton models, read with Triton's own schema."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2 as schema

from trivet.backends.profiles import Sizes, choose_profile, make_profiles, shapes
from trivet.bundle.backend_info import EngineInfo, EngineTarget
from trivet.bundle.info import INPUTS, OUTPUTS, TensorInfo
from trivet.serve.triton.config import (
    EncoderKind,
    judge_config,
    onnxruntime_config,
    python_config,
    replayed,
    tensorrt_config,
)

WINDOW = 192
NAMES = tuple(info.name for info in INPUTS)
WITHOUT_SEGMENTS = tuple(name for name in NAMES if name != "segment_ids")
TYPES = {"int64": schema.TYPE_INT64, "float32": schema.TYPE_FP32}
ENGINE = EngineInfo(
    graph="model.bf16.onnx",
    graph_sha256="0" * 64,
    precision="bf16",
    target=EngineTarget(tensorrt="10.15.1", gpu="NVIDIA L4", compute_capability="8.9"),
    profiles=make_profiles(WINDOW, max_windows=8),
    engine_sha256="1" * 64,
    build_seconds=1.0,
    date="2020-01-01",
    difference=0.001,
)


def read(config: str) -> Any:
    return text_format.Parse(config, schema.ModelConfig())


def encoder(kind: EncoderKind, names: tuple[str, ...] = NAMES) -> Any:
    if kind == "tensorrt":
        return read(tensorrt_config(ENGINE, "model.sm89.plan", names))
    if kind == "onnxruntime":
        return read(onnxruntime_config(WINDOW, "model.onnx", names, threads=3))
    return read(python_config(WINDOW, "int8", "2" * 64, threads=None))


def ends(infos: Any) -> list[tuple[str, int, list[int]]]:
    return [(info.name, info.data_type, list(info.dims)) for info in infos]


def wanted(infos: tuple[TensorInfo, ...]) -> list[tuple[str, int, list[int]]]:
    return [(info.name, TYPES[info.dtype], [-1] * len(info.dims)) for info in infos]


def parameters(config: Any) -> dict[str, str]:
    return {name: value.string_value for name, value in config.parameters.items()}


@given(st.text(st.characters(codec="ascii"), max_size=40), st.text("ab\"\\\n'{}#<&", max_size=200))
def test_any_text_comes_back(name: str, digest: str) -> None:
    values = parameters(read(judge_config("python-onnx", name, NAMES, digest)))
    assert (values["graph"], values["bundle_sha256"]) == (name, digest)
    assert read(onnxruntime_config(WINDOW, name, NAMES, 1)).default_model_filename == name


@pytest.mark.parametrize("kind", ["tensorrt", "onnxruntime", "python-onnx"])
def test_the_encoder_takes_windows_and_gives_outputs(kind: EncoderKind) -> None:
    config = encoder(kind)
    assert (config.name, config.max_batch_size) == ("encoder", 0)
    assert ends(config.input) == wanted(INPUTS)
    assert ends(config.output) == wanted(OUTPUTS[:-1])
    assert list(config.version_policy.specific.versions) == [1]
    # Flat positions would point into the windows of another call.
    assert not config.HasField("dynamic_batching")
    assert config.model_warmup
    for sample in config.model_warmup:
        assert sample.batch_size == 1
        for info in INPUTS:
            shown = sample.inputs[info.name]
            assert (shown.data_type, shown.zero_data) == (TYPES[info.dtype], True)
        sizes = sizes_of({name: tuple(tensor.dims) for name, tensor in sample.inputs.items()})
        assert min(sizes) > 0 and sizes.L <= WINDOW


@pytest.mark.parametrize("kind", ["tensorrt", "onnxruntime"])
def test_an_input_that_the_graph_never_reads_is_left_out(kind: EncoderKind) -> None:
    config = encoder(kind, WITHOUT_SEGMENTS)
    assert [info.name for info in config.input] == list(WITHOUT_SEGMENTS)
    for sample in config.model_warmup:
        assert set(sample.inputs) == set(WITHOUT_SEGMENTS)
    for spec in config.optimization.cuda.graph_spec:
        assert set(spec.input) == set(WITHOUT_SEGMENTS)


def test_texts_go_in_and_a_verdict_comes_out() -> None:
    config = read(judge_config("python-onnx", "model.onnx", WITHOUT_SEGMENTS, "2" * 64))
    assert (config.name, config.backend, config.max_batch_size) == ("trivet", "python", 0)
    text, score = schema.TYPE_STRING, schema.TYPE_FP32
    assert ends(config.input) == [
        ("question", text, [1]),
        ("contexts", text, [-1]),
        ("response", text, [1]),
        ("options_json", text, [1]),
    ]
    assert [info.optional for info in config.input] == [False, False, False, True]
    scores = ["faithfulness", "relevance", "utilization", "completeness"]
    assert ends(config.output) == [*((name, score, [1]) for name in scores), ("verdict", text, [1])]
    queue = config.dynamic_batching.default_queue_policy
    assert queue.timeout_action == schema.ModelQueuePolicy.REJECT
    assert queue.max_queue_size > 0 and queue.allow_timeout_override
    assert not config.dynamic_batching.preferred_batch_size
    (group,) = config.instance_group
    assert group.kind == schema.ModelInstanceGroup.KIND_CPU
    values = parameters(config)
    assert values["encoder_inputs"].split(",") == list(WITHOUT_SEGMENTS)
    assert values["FORCE_CPU_ONLY_INPUT_TENSORS"] == "yes"
    assert (values["encoder_model"], values["encoder_kind"]) == ("encoder", "python-onnx")
    assert (values["graph"], values["bundle_sha256"]) == ("model.onnx", "2" * 64)


def test_the_encoders_have_their_files_threads_and_bundle() -> None:
    config = encoder("onnxruntime")
    assert (config.backend, config.default_model_filename) == ("onnxruntime", "model.onnx")
    threads = {"intra_op_thread_count": "3", "inter_op_thread_count": "1"}
    assert threads.items() <= parameters(config).items()
    config = encoder("python-onnx")
    assert config.backend == "python"
    expected = {"precision": "int8", "threads": "0", "bundle_sha256": "2" * 64}
    assert expected.items() <= parameters(config).items()


def test_tensorrt_has_every_profile_and_a_warm_up_for_each() -> None:
    config = encoder("tensorrt")
    assert config.backend == "tensorrt"
    # For another GPU there is no file, and Triton says so.
    assert not config.default_model_filename
    assert dict(config.cc_model_filenames) == {"8.9": "model.sm89.plan"}
    (group,) = config.instance_group
    assert group.kind == schema.ModelInstanceGroup.KIND_GPU
    assert list(group.profile) == [str(number) for number in range(len(ENGINE.profiles))]
    assert parameters(config) == {"execution_context_allocation_strategy": "ON_PROFILE_CHANGE"}
    for number, sample in enumerate(config.model_warmup):
        sizes = sizes_of({name: tuple(tensor.dims) for name, tensor in sample.inputs.items()})
        assert choose_profile(ENGINE.profiles, sizes) == number
    assert len(config.model_warmup) == len(ENGINE.profiles)
    cuda = config.optimization.cuda
    assert cuda.graphs and cuda.output_copy_stream
    recorded = [
        sizes_of({name: tuple(tensor.dim) for name, tensor in spec.input.items()})
        for spec in cuda.graph_spec
    ]
    # One and two windows of 64, 128 and 192 positions.
    assert [(call.N, call.L) for call in recorded] == [
        (n, length) for length in (64, 128, 192) for n in (1, 2)
    ]
    assert recorded == replayed(ENGINE.profiles)


def sizes_of(dims: dict[str, tuple[int, ...]]) -> Sizes:
    letters: dict[str, int] = {}
    for info in INPUTS:
        letters |= dict(zip(info.dims, dims[info.name], strict=True))
    sizes = Sizes(**{letter: letters[letter] for letter in Sizes._fields})
    assert {info.name: shapes(sizes)[info.name] for info in INPUTS} == dims
    return sizes


def test_no_config_names_a_path() -> None:
    configs = [encoder("tensorrt"), encoder("onnxruntime"), encoder("python-onnx")]
    configs.append(read(judge_config("tensorrt", "model.onnx", NAMES, "2" * 64)))
    for config in configs:
        assert not re.search(r"(?<![\w:/.])/\w+/", str(config)), "a path of this machine"
