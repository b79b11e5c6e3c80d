"""The engines of one bundle, by the name that the tables use.

A bundle without a graph of some precision lacks that engine, and the tables say so. One without
weights gives torch random ones of the same shape, without the marks of matching words: that changes
its time little, and in torch's favour; a line below the table says so (``about_weights``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from benchmarks.report import Table
from benchmarks.shapes import Shape
from trivet.backends.backend import Backend, workers_of
from trivet.backends.graph_choice import Precision
from trivet.backends.loading import load_backend, load_tokenizer
from trivet.bundle.bundle import WEIGHTS_NAME, Bundle, read_bundle
from trivet.data.segment_tokenizer import SegmentTokenizer
from trivet.data.windows import Windows
from trivet.evaluation.job import WorkerPool
from trivet.records import BundleError

ENGINES = ("int8", "fp32", "openvino", "openvino bf16", "torch", "torch eager", "torch bf16")


def load_engine(folder: Path, engine: str, threads: int) -> tuple[Bundle, Backend]:
    """Load a bundle and one of its engines.

    Args:
        folder: The bundle's.
        engine: ``int8`` and ``fp32`` are graphs in ONNX Runtime; ``openvino`` takes what its export
            chose, or the int8 graph where nothing was, ``openvino bf16`` a choice of bf16;
            ``torch`` is the library's encoder in fp32 with scaled-dot-product attention,
            ``torch eager`` without, ``torch bf16`` with products in bf16.
        threads: Of the engine.

    Raises:
        BundleError: The bundle lacks it.
        BackendError: OpenVINO is not installed.
        ImportError: torch is not installed.
    """
    bundle = read_bundle(folder)
    kind, _, detail = engine.partition(" ")
    if kind == "torch":
        return bundle, _torch(bundle, detail, threads)
    if kind == "openvino":
        precision = cast("Precision | None", detail or None)
        return bundle, load_backend(bundle, threads, precision, "openvino").backend
    return bundle, load_backend(bundle, threads, cast("Precision", engine)).backend


class FullEngine:
    """An engine with as many calls at once as it likes, and nothing else to do."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lanes = WorkerPool(workers_of(backend))

    @property
    def workers(self) -> int:
        """How many calls it runs at once."""
        return self._lanes.count

    def run(self, calls: Iterable[Windows]) -> None:
        """Run calls that were made beforehand, and drop what comes back."""

        def run(windows: Windows, _: int) -> None:
            self._backend.run(windows)

        for answer in [self._lanes.submit(functools.partial(run, each), self) for each in calls]:
            answer.result()


def bundle_shape(bundle: Bundle) -> Shape:
    """Return the shape of a bundle's encoder; only BERT's can be told from ``bundle.json``.

    Raises:
        BundleError: It is none.
    """
    about = bundle.info.encoder
    if about.model_type != "bert":
        raise BundleError(f"{bundle.folder}: no {WEIGHTS_NAME}, and {about.model_type} is not bert")
    heads = max(1, about.hidden_size // 32)  # as in the MiniLM family
    inner = 4 * about.hidden_size
    return Shape("", "bert", about.layers, about.hidden_size, heads, inner, 0, 0)


def about_weights(folder: Path, engines: Sequence[str]) -> Table | None:
    """Return what is to be said of torch's weights; ``None`` where they are the bundle's."""
    if read_bundle(folder).has(WEIGHTS_NAME) or not any(e.startswith("torch") for e in engines):
        return None
    return Table("Weights:", ("engine", "weights"), [("torch", "random: the bundle has none")])


def vocabulary_of(folder: Path) -> int:
    """Return how many token ids a bundle knows."""
    return load_tokenizer(read_bundle(folder)).vocab_size


def tokenizer_of(folder: Path) -> SegmentTokenizer:
    """Return a bundle's tokenizer."""
    return load_tokenizer(read_bundle(folder))


def _torch(bundle: Bundle, detail: str, threads: int) -> Backend:
    import transformers

    from benchmarks.models import TorchBackend, random_model
    from trivet.bundle.weights import load_rag_model

    if bundle.has(WEIGHTS_NAME):
        model = load_rag_model(bundle)
    else:
        vocabulary = load_tokenizer(bundle).vocab_size
        model = random_model(bundle_shape(bundle), vocabulary, bundle.info.window.size)
    for part in model.modules():
        if isinstance(part, transformers.BertModel):  # DeBERTa has one way to attend
            part.set_attn_implementation("eager" if detail == "eager" else "sdpa")
    return TorchBackend(model, f"torch {detail}", threads, bf16=detail == "bf16")
