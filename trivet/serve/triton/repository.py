"""Export of a model repository for NVIDIA Triton.

    DIR/
      trivet/config.pbtxt    texts in, a verdict out: Python, on the CPU
      trivet/1/model.py      names the class in the installed package
      trivet/1/bundle/       tokenizer, settings, self-test and the graph that is used
      encoder/config.pbtxt   windows in, probabilities out
      encoder/1/             graph, engine, or model.py with a bundle

Each model has all the files that it needs: Triton may copy them to different places.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trivet.backends.backend import check_self_test, choose_graph
from trivet.backends.onnx_runtime import OnnxRuntimeBackend
from trivet.backends.opening import find_engine
from trivet.backends.tensorrt import TensorRTBackend
from trivet.bundle.bundle import (
    CARD_NAME,
    INFO_NAME,
    SELF_TEST_NAME,
    TOKENIZER_NAME,
    Bundle,
    read_bundle,
    write_bundle,
)
from trivet.bundle.info import BundleInfo, GraphInfo
from trivet.data.windows import Windows
from trivet.errors import BundleError
from trivet.heads import DEFAULT_HEADS
from trivet.serve.triton.config import (
    BUNDLE,
    ENCODER,
    JUDGE,
    VERSION,
    EncoderKind,
    judge_config,
    manifest_sha256,
    onnxruntime_config,
    python_config,
    tensorrt_config,
)
from trivet.settings import Precision

logger = logging.getLogger(__name__)

CONFIG_NAME, MODEL_NAME = "config.pbtxt", "model.py"
_MODEL = '''"""Runs the trivet package that is installed for Triton's Python backend."""

from trivet.serve.triton.{module} import TritonPythonModel

__all__ = ["TritonPythonModel"]
'''


@dataclass(frozen=True)
class _Encoder:
    """The model that runs the windows."""

    info: BundleInfo  # in the bundle of the model ``trivet``
    graph: GraphInfo  # that it runs, or that its engine was built from
    inputs: tuple[str, ...]  # fields of ``Windows`` that it reads
    files: Mapping[str, bytes | Path]  # of ``encoder/1``, as bytes or as paths to copy
    config: str | None  # ``None`` for the Python backend, which needs the bundle first


def export_triton(
    folder: Path,
    out: Path,
    kind: EncoderKind,
    *,
    precision: Precision | None = None,
    threads: int | None = None,
) -> None:
    """Write the model repository of a bundle.

    Args:
        folder: The bundle.
        out: Empty or new folder to write into.
        kind: Backend of the encoder.
        precision: Precision of the graph; ``None`` means the fastest, and bf16 for TensorRT.
        threads: Threads of ONNX Runtime; ``None`` means one for each core.

    Raises:
        BundleError: The bundle is refused, has no such graph, or the graph fails its self-test
            here; or ``out`` is not empty.
        BackendError: No TensorRT engine of the bundle was built on this machine.
    """
    bundle = read_bundle(folder)
    missing = [name for name in DEFAULT_HEADS if name not in bundle.info.heads]
    if missing:
        raise BundleError(
            f"{folder}: has no {' and no '.join(missing)} head, which the Triton models need; use "
            "`trivet serve`"
        )
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
        config = python_config(window, kept, sha256, threads, bundle.info.heads)
    # Written last, so that Triton never loads half a repository.
    _write(encoder_folder.parent, {CONFIG_NAME: config.encode()})
    asked = judge_config(kind, encoder.graph.file, encoder.inputs, sha256)
    _write(judge_folder.parent, {CONFIG_NAME: asked.encode()})
    logger.info("%s: written for %s in %s", out, encoder.graph.file, kind)


def _find_encoder(
    bundle: Bundle, kind: EncoderKind, precision: Precision | None, threads: int | None
) -> _Encoder:
    """Choose the encoder and run its self-test."""
    if kind == "tensorrt":
        return _of_tensorrt(bundle, precision)
    graph = choose_graph(bundle, precision)
    backend = OnnxRuntimeBackend(bundle.path(graph.file), threads, sums_fit=graph.sums_fit)
    check_self_test(backend, bundle, graph.file)
    info = _of_one_graph(bundle.info, graph)
    if kind == "python-onnx":
        model = {MODEL_NAME: _model("encoder_model")}
        # Its config lists every input; the backend picks those that its graph reads.
        return _Encoder(info, graph, Windows._fields, model, config=None)
    config = onnxruntime_config(
        bundle.info.window.size, graph.file, backend.inputs, threads, bundle.info.heads
    )
    files = {name: bundle.path(name) for name in bundle.graph_files(graph.file)}
    return _Encoder(info, graph, backend.inputs, files, config)


def _of_tensorrt(bundle: Bundle, precision: Precision | None) -> _Encoder:
    """Take the engine for this GPU from the cache of this machine, and run its self-test."""
    plan, engine = find_engine(bundle, precision)
    graph = next(entry for entry in bundle.info.graphs if entry.file == engine.graph)
    backend = TensorRTBackend(plan, engine, contexts=1)
    check_self_test(backend, bundle, engine.graph)
    name = f"model.sm{engine.target.compute_capability.replace('.', '')}.plan"
    info = _of_one_graph(bundle.info, graph).model_copy(update={"engines": (engine,)})
    config = tensorrt_config(engine, name, backend.inputs, bundle.info.heads)
    return _Encoder(info, graph, backend.inputs, {name: plan}, config)


def _of_one_graph(info: BundleInfo, graph: GraphInfo) -> BundleInfo:
    """Return the description of a bundle with one graph alone."""
    changed = {"graphs": (graph,), "engines": (), "openvino": None}
    return info.model_copy(update=changed)


def _copy_bundle(bundle: Bundle, encoder: _Encoder, out: Path) -> None:
    """Copy the files of a bundle that serving needs, and check them against its manifest."""
    tokenizer = bundle.path(TOKENIZER_NAME).read_text(encoding="utf-8")
    names = (*bundle.graph_files(encoder.graph.file), SELF_TEST_NAME)
    files = {name: bundle.path(name) for name in names}
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
