"""Loading of a bundle's tokenizer and backend."""

from __future__ import annotations

import importlib.util
import logging
from typing import Literal

from trivet.backends.backend import cores
from trivet.backends.device import find_gpu
from trivet.backends.graph_choice import LoadedBackend, Precision
from trivet.backends.onnx_loading import load_onnx
from trivet.bundle.bundle import INT8_NAME, TOKENIZER_NAME, WEIGHTS_NAME, Bundle
from trivet.data.tokenization import SegmentTokenizer
from trivet.errors import BackendError, BundleError, install_line

logger = logging.getLogger(__name__)

BackendName = Literal["onnx", "openvino", "tensorrt", "torch"]


def load_tokenizer(bundle: Bundle) -> SegmentTokenizer:
    """Load a bundle's tokenizer.

    Raises:
        BundleError: It is no tokenizer, or its special tokens are not those of the model.
    """
    tokenizer = SegmentTokenizer.from_file(bundle.path(TOKENIZER_NAME))
    said, found = bundle.info.special_tokens, tokenizer.special
    if (said.cls, said.sep, said.pad) != (found.cls, found.sep, found.pad):
        raise BundleError(
            f"{TOKENIZER_NAME}: its special tokens are cls {found.cls}, sep {found.sep}, pad "
            f"{found.pad}, but bundle.json says cls {said.cls}, sep {said.sep}, pad {said.pad}; "
            "the tokenizer belongs to another model"
        )
    return tokenizer


def load_backend(
    bundle: Bundle,
    threads: int | None = None,
    precision: Precision | None = None,
    backend: BackendName | None = None,
    workers: int | None = None,
    device: str | None = None,
) -> LoadedBackend:
    """Load a graph, an engine or the weights of a bundle, and run the stored self-test.

    Args:
        bundle: A bundle whose files were checked.
        threads: Threads of the backend; ``None`` means one for each core.
        precision: Precision to compute in; ``None`` means fp16 on a GPU, on a CPU int8 if there is
            such a graph (fp32 for torch), and for OpenVINO the choice of ``trivet export``.
        backend: ``onnx`` (ONNX Runtime), ``openvino`` (faster on CPUs with VNNI), ``tensorrt``
            (built by ``trivet export tensorrt``), ``torch``, or ``None`` for the choice of
            ``choose_backend``.
        workers: Calls that a CPU runs at once, each on its share of the threads; ``None`` runs
            each on one thread. Use 1 to make one call at a time.
        device: ``cpu``, ``cuda`` or ``cuda:N``; ``None`` takes a GPU if the backend can use one.

    Raises:
        BundleError: A file is missing or refused, or fails the self-test.
        BackendError: A library or the device is missing, or no engine was built on this machine.
    """
    backend = backend or choose_backend(bundle, precision, device)
    if backend == "torch":
        try:
            from trivet.backends.torch import load_torch
        except ImportError as error:
            needs = f"the torch backend needs {error.name}; {install_line('train')}"
            raise BackendError(needs) from error
        return load_torch(bundle, threads, precision, device)
    if backend == "tensorrt":
        from trivet.backends.tensorrt_loading import load_engine

        return load_engine(bundle, precision, device)
    workers = workers or threads or cores()
    if backend == "openvino":
        from trivet.backends.openvino_loading import load_for_openvino

        if device not in (None, "cpu"):
            raise BackendError(f"OpenVINO runs on the CPU, not on {device}")
        return load_for_openvino(bundle, threads, precision, workers)
    return load_onnx(bundle, threads, precision, workers, device)


def choose_backend(
    bundle: Bundle, precision: Precision | None = None, device: str | None = None
) -> BackendName:
    """Return the default backend: ``onnx`` on a CPU; on a GPU the fastest one that is there.

    The arguments are those of ``load_backend``.

    Raises:
        BackendError: There is no such device.
    """
    gpu = find_gpu(device)
    if gpu is None or precision == "int8":
        return "onnx"
    if gpu == 0 and _has_engine(bundle, precision):
        return "tensorrt"
    if _torch_runs_it(bundle):
        logger.warning(
            "%s: no TensorRT engine was built for this GPU, so torch runs it; faster: `trivet "
            "export tensorrt %s --data DATA`",
            bundle.folder,
            bundle.as_argument,
        )
        return "torch"
    return "onnx"


def _has_engine(bundle: Bundle, precision: Precision | None) -> bool:
    """Return whether an engine of the bundle was built on this machine."""
    if importlib.util.find_spec("tensorrt") is None:
        return False
    from trivet.backends.tensorrt_loading import find_engine

    try:
        find_engine(bundle, precision)
    except (BackendError, BundleError) as error:
        logger.info("%s", error)
        return False
    return True


def _torch_runs_it(bundle: Bundle) -> bool:
    """Return whether torch can load the bundle on a GPU."""
    weights = bundle.has(WEIGHTS_NAME) or (
        bundle.has(INT8_NAME) and bundle.info.encoder.model_type == "bert"
    )
    if not weights or importlib.util.find_spec("torch") is None:
        return False
    try:
        from trivet.backends.torch import check_gpu

        check_gpu()
    except (BackendError, ImportError) as error:
        logger.warning("%s", error)
        return False
    return True
