"""The ``config.pbtxt`` of both Triton models, and the bundle that it names.

Neither model has a batch dimension (``max_batch_size: 0``). The windows of a call are stacked, and
``response_at`` and ``context_at`` count positions through all of them: if Triton stacked two calls,
they would point into each other's windows. So ``trivet`` fills the calls of the encoder itself.

Arguments of the configs: ``window`` is the maximum of a window's positions, ``graph`` and ``plan``
are file names, ``inputs`` the fields of ``Windows`` that the graph reads, ``heads`` its heads,
``threads`` those of ONNX Runtime (``None``: one for each core), ``bundle_sha256`` the digest of the
bundle's manifest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trivet.backends.backend import POSITIONS
from trivet.backends.profiles import FEW_WINDOWS, STEP, Sizes, choose_profile, graph_sizes, shapes
from trivet.backends.tensorrt import CONTEXTS
from trivet.bundle.backend_info import EngineInfo, ShapeRange
from trivet.bundle.info import INPUTS, outputs_of
from trivet.bundle.manifest import MANIFEST_NAME
from trivet.errors import BundleError
from trivet.heads import DEFAULT_HEADS
from trivet.verdict_json import SCORES

if TYPE_CHECKING:
    from jinja2 import Template

EncoderKind = Literal["tensorrt", "onnxruntime", "python-onnx"]

JUDGE, ENCODER, VERSION = "trivet", "encoder", "1"
BUNDLE = "bundle"

_TYPES = {"int64": "TYPE_INT64", "float32": "TYPE_FP32"}


def judge_config(kind: EncoderKind, graph: str, inputs: Sequence[str], bundle_sha256: str) -> str:
    """Return the config of ``trivet``: texts in, a verdict out."""
    values = {"kind": kind, "graph": graph, "inputs": inputs, "bundle_sha256": bundle_sha256}
    return _template("judge.pbtxt").render(values, scores=SCORES)


def python_config(
    window: int,
    precision: str,
    bundle_sha256: str,
    threads: int | None,
    heads: Collection[str] = DEFAULT_HEADS,
) -> str:
    """Return the config of an encoder that ONNX Runtime runs in Triton's Python backend."""
    names = [info.name for info in INPUTS]
    parameters = {
        "precision": precision,
        "bundle_sha256": bundle_sha256,
        "threads": str(threads or 0),
        "FORCE_CPU_ONLY_INPUT_TENSORS": "yes",
    }
    return _encoder_config("python", names, heads, _full_call(window), parameters)


def onnxruntime_config(
    window: int,
    graph: str,
    inputs: Sequence[str],
    threads: int | None,
    heads: Collection[str] = DEFAULT_HEADS,
) -> str:
    """Return the config of an encoder that Triton's ONNX Runtime backend runs on the CPU."""
    parameters = {
        "intra_op_thread_count": str(threads or 0),
        "inter_op_thread_count": "1",
        # Every shape would get a memory plan of its own.
        "enable_mem_pattern": "0",
    }
    return _encoder_config("onnxruntime", inputs, heads, _full_call(window), parameters, file=graph)


def tensorrt_config(
    engine: EngineInfo, plan: str, inputs: Sequence[str], heads: Collection[str] = DEFAULT_HEADS
) -> str:
    """Return the config of an encoder that Triton's TensorRT backend runs."""
    numbered = list(enumerate(engine.profiles))
    return _encoder_config(
        "tensorrt",
        inputs,
        heads,
        {f"profile_{number}": Sizes(**profile.usual) for number, profile in numbered},
        # Memory for the current profile, not for the largest one.
        {"execution_context_allocation_strategy": "ON_PROFILE_CHANGE"},
        file=plan,
        capability=engine.target.compute_capability,
        contexts=CONTEXTS,
        profiles=[str(number) for number, _ in numbered],
        replayed=[shapes(sizes) for sizes in replayed(engine.profiles)],
    )


def _encoder_config(
    backend: str,
    inputs: Sequence[str],
    heads: Collection[str],
    warm_ups: Mapping[str, Sizes],
    parameters: Mapping[str, str],
    **values: object,
) -> str:
    return _template("encoder.pbtxt").render(
        values,
        backend=backend,
        inputs=[info for info in INPUTS if info.name in inputs],
        outputs=outputs_of(heads),
        types=_TYPES,
        warm_ups={name: shapes(sizes) for name, sizes in warm_ups.items()},
        parameters=parameters,
    )


def _template(name: str) -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("trivet.serve.triton"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quote"] = json.dumps  # strings of the text format are as in JSON
    return environment.get_template(name)


def replayed(profiles: tuple[ShapeRange, ...]) -> list[Sizes]:
    """Return the shapes of small calls, which are replayed as CUDA graphs."""
    longest = max(profile.most["L"] for profile in profiles)
    captured = []
    for length in (*range(STEP, longest, STEP), longest):
        for windows in range(1, FEW_WINDOWS + 1):
            sizes = Sizes(windows, length, 1, 1, 1, 1, 1)
            fixed = graph_sizes(profiles[choose_profile(profiles, sizes)], sizes)
            if fixed is not None:
                captured.append(fixed)
    return captured


def read_parameters(args: Mapping[str, str]) -> dict[str, str]:
    """Return the ``parameters`` in the arguments of ``initialize`` in the Python backend."""
    config = json.loads(args["model_config"])
    return {name: value["string_value"] for name, value in config["parameters"].items()}


def find_bundle(args: Mapping[str, str], sha256: str) -> Path:
    """Return the folder of a model's bundle, whose files are not checked yet.

    Raises:
        BundleError: It is missing, or not the bundle of the config.
    """
    folder = Path(args["model_repository"]) / args["model_version"] / BUNDLE
    digest = manifest_sha256(folder)
    if digest != sha256:
        raise BundleError(
            f"{folder / MANIFEST_NAME}: SHA-256 {digest[:12]}... instead of {sha256[:12]}..., "
            "which config.pbtxt names; write the repository again: "
            "trivet export triton BUNDLE --out DIR"
        )
    return folder


def manifest_sha256(folder: Path) -> str:
    """Return the SHA-256 of a bundle's manifest, which identifies the bundle to the last byte."""
    try:
        return hashlib.sha256((folder / MANIFEST_NAME).read_bytes()).hexdigest()
    except OSError as error:
        raise BundleError(f"{folder / MANIFEST_NAME}: cannot be read: {error}") from error


def _full_call(window: int) -> dict[str, Sizes]:
    """Return the warm-up of a full call with one example."""
    windows = max(1, POSITIONS // window)
    sizes = Sizes(N=windows, L=window, B=1, R=window // 8, K=windows, C=windows * window // 2, S=4)
    return {"full": sizes}
