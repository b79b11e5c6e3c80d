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
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from trivet.backends.backend import POSITIONS
from trivet.backends.profiles import FEW_WINDOWS, STEP, Sizes, choose_profile, graph_sizes, shapes
from trivet.backends.tensorrt import CONTEXTS
from trivet.bundle.backend_info import EngineInfo, ShapeRange
from trivet.bundle.manifest import MANIFEST_NAME
from trivet.bundle.schema import INPUTS, TensorInfo, outputs_of
from trivet.errors import BundleError
from trivet.model.architecture import DEFAULT_HEADS
from trivet.verdict_json import SCORES

_WIDTH = 96  # characters


class Word(str):
    """A value of an enumeration such as ``KIND_CPU``, written without quotes."""

    __slots__ = ()


Scalar: TypeAlias = str | int | bool
Value: TypeAlias = "Scalar | Message | Sequence[Scalar] | Sequence[Message]"
Message: TypeAlias = Mapping[str, Value]


def to_text(message: Message) -> str:
    """Return a message as text; a list is a repeated field, and a map is made by ``to_map``."""
    return "".join(f"{line}\n" for line in _lines(message))


def to_map(values: Mapping[str, Value]) -> list[Message]:
    """Return a map in the form of the text format."""
    return [{"key": key, "value": value} for key, value in values.items()]


def to_parameters(values: Mapping[str, str]) -> list[Message]:
    """Return the ``parameters`` of a model, which are strings by name."""
    return to_map({key: {"string_value": value} for key, value in values.items()})


def _lines(message: Message) -> Iterator[str]:
    for name, value in message.items():
        if isinstance(value, Mapping):
            yield from _block(name, value)
        elif isinstance(value, str | int):
            yield f"{name}: {_scalar(value)}"
        else:
            scalars = [_scalar(each) for each in value if not isinstance(each, Mapping)]
            if scalars:
                yield f"{name}: [ {', '.join(scalars)} ]"
            for each in value:
                if isinstance(each, Mapping):
                    yield from _block(name, each)


def _block(name: str, message: Message) -> Iterator[str]:
    lines = list(_lines(message))
    whole = f"{name} {{ {' '.join(lines)} }}"
    if len(whole) <= _WIDTH:
        yield whole
        return
    yield f"{name} {{"
    yield from (f"  {line}" for line in lines)
    yield "}"


def _scalar(value: Scalar) -> str:
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value)  # strings and numbers as in JSON


EncoderKind = Literal["tensorrt", "onnxruntime", "python-onnx"]

JUDGE, ENCODER, VERSION = "trivet", "encoder", "1"
BUNDLE = "bundle"

# A request occupies an instance until it is answered; more would only wait for the encoder.
JUDGES = 4
# Calls of one request in the encoder at a time: enough to keep it busy, few enough for other
# requests.
CALLS_IN_FLIGHT = 4
MOST_QUEUED = 512
QUEUE_MICROSECONDS = 60_000_000
MOST_WINDOWS = 4096

_TYPES = {"int64": Word("TYPE_INT64"), "float32": Word("TYPE_FP32")}
_STRING = Word("TYPE_STRING")
_CPU_TENSORS = {"FORCE_CPU_ONLY_INPUT_TENSORS": "yes"}


def judge_config(
    kind: EncoderKind, graph: str, inputs: Sequence[str], bundle_sha256: str
) -> Message:
    """Return the config of ``trivet``: texts in, a verdict out."""
    parameters = {
        "encoder_model": ENCODER,
        "encoder_kind": kind,
        "encoder_inputs": ",".join(inputs),
        "graph": graph,
        "bundle_sha256": bundle_sha256,
        "calls_in_flight": str(CALLS_IN_FLIGHT),
        "max_windows": str(MOST_WINDOWS),
    }
    return {
        **_head(JUDGE, "python"),
        "input": [
            {"name": "question", "data_type": _STRING, "dims": [1]},
            {"name": "contexts", "data_type": _STRING, "dims": [-1]},
            {"name": "response", "data_type": _STRING, "dims": [1]},
            {"name": "options_json", "data_type": _STRING, "dims": [1], "optional": True},
        ],
        "output": [
            *({"name": name, "data_type": _TYPES["float32"], "dims": [1]} for name in SCORES),
            {"name": "verdict", "data_type": _STRING, "dims": [1]},
        ],
        "instance_group": [{"kind": Word("KIND_CPU"), "count": JUDGES}],
        # Nothing is batched: in Triton only the batcher has a bounded queue.
        "dynamic_batching": {
            "default_queue_policy": {
                "timeout_action": Word("REJECT"),
                "default_timeout_microseconds": QUEUE_MICROSECONDS,
                "allow_timeout_override": True,
                "max_queue_size": MOST_QUEUED,
            }
        },
        "parameters": to_parameters(parameters | _CPU_TENSORS),
    }


def python_config(
    window: int,
    precision: str,
    bundle_sha256: str,
    threads: int | None,
    heads: Collection[str] = DEFAULT_HEADS,
) -> Message:
    """Return the config of an encoder that ONNX Runtime runs in Triton's Python backend."""
    parameters = {
        "precision": precision,
        "bundle_sha256": bundle_sha256,
        "threads": str(threads or 0),
    }
    return {
        **_head(ENCODER, "python"),
        **_ends(INPUTS, heads),
        "instance_group": [{"kind": Word("KIND_CPU"), "count": 1}],
        "model_warmup": [_warm_up("full", _full_call(window), INPUTS)],
        "parameters": to_parameters(parameters | _CPU_TENSORS),
    }


def onnxruntime_config(
    window: int,
    graph: str,
    inputs: Sequence[str],
    threads: int | None,
    heads: Collection[str] = DEFAULT_HEADS,
) -> Message:
    """Return the config of an encoder that Triton's ONNX Runtime backend runs on the CPU."""
    read = _named(inputs)
    parameters = {
        "intra_op_thread_count": str(threads or 0),
        "inter_op_thread_count": "1",
        # Every shape would get a memory plan of its own.
        "enable_mem_pattern": "0",
    }
    return {
        **_head(ENCODER, "onnxruntime"),
        "default_model_filename": graph,
        **_ends(read, heads),
        "instance_group": [{"kind": Word("KIND_CPU"), "count": 1}],
        "model_warmup": [_warm_up("full", _full_call(window), read)],
        "parameters": to_parameters(parameters),
    }


def tensorrt_config(
    engine: EngineInfo, plan: str, inputs: Sequence[str], heads: Collection[str] = DEFAULT_HEADS
) -> Message:
    """Return the config of an encoder that Triton's TensorRT backend runs."""
    read = _named(inputs)
    numbered = list(enumerate(engine.profiles))
    graphs: list[Message] = [
        {
            "batch_size": 0,  # required without a batch dimension
            "input": to_map({name: {"dim": list(shape)} for name, shape in _shapes(sizes, read)}),
        }
        for sizes in replayed(engine.profiles)
    ]
    return {
        **_head(ENCODER, "tensorrt"),
        # By GPU type: on another one Triton reports the missing file.
        "cc_model_filenames": [{"key": engine.target.compute_capability, "value": plan}],
        **_ends(read, heads),
        "instance_group": [
            {
                "kind": Word("KIND_GPU"),
                "count": CONTEXTS,
                # The default is the first one alone.
                "profile": [str(number) for number, _ in numbered],
            }
        ],
        "optimization": {
            "cuda": {"graphs": True, "graph_spec": graphs, "output_copy_stream": True}
        },
        "model_warmup": [
            _warm_up(f"profile_{number}", Sizes(**profile.usual), read)
            for number, profile in numbered
        ],
        # Memory for the current profile, not for the largest one.
        "parameters": to_parameters({"execution_context_allocation_strategy": "ON_PROFILE_CHANGE"}),
    }


def replayed(profiles: tuple[ShapeRange, ...]) -> list[Sizes]:
    """Return the shapes of small calls, which are replayed as CUDA graphs."""
    longest = max(profile.most["L"] for profile in profiles)
    found = []
    for length in (*range(STEP, longest, STEP), longest):
        for windows in range(1, FEW_WINDOWS + 1):
            sizes = Sizes(windows, length, 1, 1, 1, 1, 1)
            fixed = graph_sizes(profiles[choose_profile(profiles, sizes)], sizes)
            if fixed is not None:
                found.append(fixed)
    return found


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
    found = manifest_sha256(folder)
    if found != sha256:
        raise BundleError(
            f"{folder / MANIFEST_NAME}: SHA-256 {found[:12]}... instead of {sha256[:12]}..., which "
            "config.pbtxt names; write the repository again: trivet export triton BUNDLE --out DIR"
        )
    return folder


def manifest_sha256(folder: Path) -> str:
    """Return the SHA-256 of a bundle's manifest, which identifies the bundle to the last byte."""
    try:
        return hashlib.sha256((folder / MANIFEST_NAME).read_bytes()).hexdigest()
    except OSError as error:
        raise BundleError(f"{folder / MANIFEST_NAME}: cannot be read: {error}") from error


def _head(name: str, backend: str) -> Message:
    return {
        "name": name,
        "backend": backend,
        "max_batch_size": 0,
        "version_policy": {"specific": {"versions": [int(VERSION)]}},
    }


def _named(inputs: Sequence[str]) -> tuple[TensorInfo, ...]:
    return tuple(info for info in INPUTS if info.name in inputs)


def _ends(inputs: Sequence[TensorInfo], heads: Collection[str]) -> Message:
    """Return the encoder's inputs and outputs; every dimension changes from call to call."""
    return {
        end: [
            {"name": info.name, "data_type": _TYPES[info.dtype], "dims": [-1] * len(info.dims)}
            for info in infos
        ]
        for end, infos in (("input", inputs), ("output", outputs_of(heads)))
    }


def _full_call(window: int) -> Sizes:
    """Return the sizes of a full call with one example."""
    windows = max(1, POSITIONS // window)
    return Sizes(N=windows, L=window, B=1, R=window // 8, K=windows, C=windows * window // 2, S=4)


def _shapes(sizes: Sizes, inputs: Sequence[TensorInfo]) -> list[tuple[str, tuple[int, ...]]]:
    by_name = shapes(sizes)
    return [(info.name, by_name[info.name]) for info in inputs]


def _warm_up(name: str, sizes: Sizes, inputs: Sequence[TensorInfo]) -> Message:
    """Return a call of zeros for the warm-up."""
    types = {info.name: _TYPES[info.dtype] for info in inputs}
    return {
        "name": name,
        "batch_size": 1,  # also without a batch dimension
        "inputs": to_map(
            {
                each: {"data_type": types[each], "dims": list(shape), "zero_data": True}
                for each, shape in _shapes(sizes, inputs)
            }
        ),
    }
