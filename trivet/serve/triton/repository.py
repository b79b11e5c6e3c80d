"""``trivet export --triton``: a model repository for NVIDIA Triton.

    DIR/
      trivet/config.pbtxt    texts in, a verdict out: Python, on the CPU
      trivet/1/model.py      names the class in the installed package
      trivet/1/bundle/       tokenizer, settings, self-test and the one graph that answers
      encoder/config.pbtxt   windows in, probabilities out
      encoder/1/             the graph, the engine, or model.py with a bundle of its own

Each model holds all that it needs: Triton may fetch them to different places.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trivet.backends.graph_choice import Precision, check_self_test, choose_graph
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.tensorrt_loading import find_graph
from trivet.bundle.bundle import (
    CARD_NAME,
    INFO_NAME,
    SELF_TEST_NAME,
    TOKENIZER_NAME,
    Bundle,
    read_bundle,
    write_bundle,
)
from trivet.bundle.schema import BundleInfo, GraphInfo
from trivet.bundle.tensorrt_info import EnginePrecision
from trivet.data.windows import Windows
from trivet.records import BundleError
from trivet.serve.triton.beside import manifest_sha256
from trivet.serve.triton.config import (
    BUNDLE,
    ENCODER,
    JUDGE,
    VERSION,
    EncoderKind,
    judge_config,
    onnxruntime_config,
    python_config,
    tensorrt_config,
)
from trivet.serve.triton.config_text import Message, to_text
from trivet.serve.triton.plan import find_plan

logger = logging.getLogger(__name__)

CONFIG_NAME, MODEL_NAME = "config.pbtxt", "model.py"
_MODEL = '''"""Runs the trivet that is installed where Triton's Python backend looks for it."""

from trivet.serve.triton.{module} import TritonPythonModel

__all__ = ["TritonPythonModel"]
'''


@dataclass(frozen=True)
class _Encoder:
    """What runs the windows.

    Attributes:
        info: What the bundle beside ``trivet`` says of itself.
        graph: The graph that answers, or that the engine was built from.
        inputs: The fields of ``Windows`` that it takes.
        files: What stands in ``encoder/1``, as bytes or as files to copy.
        config: Its config; ``None`` for the Python backend, which needs the bundle first.
    """

    info: BundleInfo
    graph: GraphInfo
    inputs: tuple[str, ...]
    files: Mapping[str, bytes | Path]
    config: Message | None


def export_triton(
    folder: Path,
    out: Path,
    kind: EncoderKind,
    *,
    precision: Precision | None = None,
    threads: int | None = None,
) -> None:
    """Write a model repository of a bundle.

    Args:
        folder: The bundle.
        out: Where to write; an empty or a new folder.
        kind: What runs the encoder.
        precision: Which graph; ``None`` takes the fastest, and bf16 of TensorRT.
        threads: Threads of ONNX Runtime; ``None`` takes one for each core.

    Raises:
        BundleError: The bundle is refused, has no such graph, or the graph does not answer its
            self-test here; or ``out`` holds something.
        BackendError: No TensorRT engine of the bundle was built here.
    """
    bundle = read_bundle(folder)
    if out.exists() and any(out.iterdir()):
        raise BundleError(f"{out}: not empty; give an empty or a new folder")
    encoder = _find_encoder(bundle, kind, precision, threads)
    judge_folder, encoder_folder = out / JUDGE / VERSION, out / ENCODER / VERSION
    _copy_bundle(bundle, encoder, judge_folder / BUNDLE)
    sha256 = manifest_sha256(judge_folder / BUNDLE)
    _write(judge_folder, {MODEL_NAME: _model("judge_model")})
    _write(encoder_folder, encoder.files)
    config = encoder.config
    if config is None:
        shutil.copytree(judge_folder / BUNDLE, encoder_folder / BUNDLE)
        window, kept = bundle.info.window.size, encoder.graph.precision
        config = python_config(window, kept, sha256, threads)
    # Last, so that Triton loads no half of a repository.
    _write(encoder_folder.parent, {CONFIG_NAME: to_text(config).encode()})
    asked = judge_config(kind, encoder.graph.file, encoder.inputs, sha256)
    _write(judge_folder.parent, {CONFIG_NAME: to_text(asked).encode()})
    logger.info("%s: %s in %s answers", out, encoder.graph.file, kind)


def _find_encoder(
    bundle: Bundle, kind: EncoderKind, precision: Precision | None, threads: int | None
) -> _Encoder:
    """Find what is to answer, and let it answer the self-test here."""
    if kind == "tensorrt":
        return _of_tensorrt(bundle, precision)
    graph = choose_graph(bundle, precision)
    backend = OnnxRuntimeBackend(bundle.path(graph.file), threads, sums_fit=graph.sums_fit)
    check_self_test(backend, bundle, graph.file)
    info = _of_one_graph(bundle.info, graph)
    if kind == "python-onnx":
        model = {MODEL_NAME: _model("encoder_model")}
        # Its config lists every input; the backend behind it takes what its graph reads.
        return _Encoder(info, graph, Windows._fields, model, config=None)
    config = onnxruntime_config(bundle.info.window.size, graph.file, backend.inputs, threads)
    file = {graph.file: bundle.path(graph.file)}
    return _Encoder(info, graph, backend.inputs, file, config)


def _of_tensorrt(bundle: Bundle, precision: Precision | None) -> _Encoder:
    if precision == "int8":
        raise BundleError(f"{bundle.folder}: no TensorRT engine in int8; use bf16, fp16 or fp32")
    kind: EnginePrecision = precision or "bf16"
    graph = find_graph(bundle, kind)
    plan = find_plan(bundle, kind)
    name = f"model.sm{plan.info.target.compute_capability.replace('.', '')}.plan"
    info = _of_one_graph(bundle.info, graph).model_copy(update={"engines": (plan.info,)})
    config = tensorrt_config(plan.info, name, plan.inputs)
    return _Encoder(info, graph, plan.inputs, {name: plan.content}, config)


def _of_one_graph(info: BundleInfo, graph: GraphInfo) -> BundleInfo:
    """Return what a bundle says of itself that holds nothing but what serving needs."""
    kept = tuple(each for each in info.quantized if each.file == graph.file)
    changed = {"graphs": (graph,), "engines": (), "openvino": None, "quantized": kept}
    return info.model_copy(update=changed)


def _copy_bundle(bundle: Bundle, encoder: _Encoder, out: Path) -> None:
    """Copy what serving needs of a bundle, and check the copy against its own manifest."""
    tokenizer = bundle.path(TOKENIZER_NAME).read_text(encoding="utf-8")
    files = {name: bundle.path(name) for name in (encoder.graph.file, SELF_TEST_NAME)}
    write_bundle(out, encoder.info, tokenizer, extra=files)
    copied = read_bundle(out)
    for name in copied.manifest.files.keys() - {INFO_NAME, CARD_NAME}:
        if copied.manifest.files[name] != bundle.manifest.files[name]:
            raise BundleError(f"{bundle.path(name)}: it changed while it was copied; export again")


def _model(module: str) -> bytes:
    return _MODEL.format(module=module).encode()


def _write(folder: Path, files: Mapping[str, bytes | Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            shutil.copyfile(content, folder / name)
