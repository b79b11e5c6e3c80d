"""One example from text to verdict, as the evaluator does it, with a clock at every stage."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from benchmarks.engines import load_engine
from benchmarks.inputs import OTHER_TOKENS, build_example
from benchmarks.timing import Run
from trivet.backends.backend import AllThreadsBackend, Backend, ShapedBackend, workers_of
from trivet.backends.loading import load_tokenizer
from trivet.bundle.bundle import Bundle
from trivet.data.segment_tokenizer import SegmentTokenizer
from trivet.data.tokenization import TokenizedExample, tokenize_examples
from trivet.data.windows import Layout, Windows, WindowSettings, lay_out
from trivet.evaluation.job import InferenceJob, WorkerPool
from trivet.evaluation.packing import BatchLimits
from trivet.evaluation.postprocessing import to_evaluation
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.model.aggregate import Outputs
from trivet.records import RagExample

HOST = ("tokenize", "lay_out", "join", "verdict")
STAGES = ("tokenize", "lay_out", "engine", "join", "verdict")


class Clocked:
    """An engine whose seconds are counted apart from what surrounds it.

    Attributes:
        seconds: During which at least one call ran.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.seconds = 0.0
        self._running = 0
        self._since = 0.0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The engine's own."""
        return self._backend.name

    def run(self, windows: Windows) -> Outputs:
        """Run the engine; see ``Backend.run``."""
        return self._run(self._backend.run, windows)

    @property
    def workers(self) -> int:
        """How many calls it likes to run at once."""
        return workers_of(self._backend)

    def run_all_threads(self, windows: Windows) -> Outputs:
        """Run the engine on all of its threads; see ``AllThreadsBackend.run_all_threads``."""
        if isinstance(self._backend, AllThreadsBackend):
            return self._run(self._backend.run_all_threads, windows)
        return self._run(self._backend.run, windows)

    def _run(self, run: Callable[[Windows], Outputs], windows: Windows) -> Outputs:
        self._count(1)
        try:
            return run(windows)
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            now = time.perf_counter()
            if self._running:
                self.seconds += now - self._since
            self._running += change
            self._since = now


class NoEngine:
    """Answers at once, the same for every token: leaves the host's work alone."""

    name = "no engine"

    def run(self, windows: Windows) -> Outputs:
        """Return one half everywhere; shapes as in ``Outputs``."""
        response, context = windows.response_at.shape[:2], windows.context_at.shape
        sentences = windows.sentence_pool.shape[:2]
        one = windows.response_at.shape[:1]
        shapes = (response, context, context, sentences, one, one, one, one)
        return Outputs(*(np.full(shape, 0.5, dtype=np.float32) for shape in shapes))


class Pipeline:
    """Everything between a text and its verdict.

    Args:
        bundle: Says how windows are cut and joined, and where a probability becomes a verdict.
        backend: What answers.
        settings: How windows are cut; ``None`` is the bundle's own way.
    """

    def __init__(
        self, bundle: Bundle, backend: Backend, settings: WindowSettings | None = None
    ) -> None:
        window = bundle.info.window
        self._info = bundle.info
        self._settings = settings or WindowSettings(
            window.size, window.overlap, window.sizes, window.break_even
        )
        self._backend = Clocked(backend)
        self._lanes = WorkerPool(workers_of(backend))
        self._filling = BatchLimits()
        if isinstance(backend, ShapedBackend):
            self._filling = BatchLimits(backend.positions, backend.step, backend.most_windows)
        self.tokenizer: SegmentTokenizer = load_tokenizer(bundle)

    def read(self, example: RagExample) -> TokenizedExample:
        """Tokenize."""
        return tokenize_examples([example], self.tokenizer)[0]

    def lay_out(self, read: TokenizedExample) -> Layout:
        """Cut."""
        return lay_out(read, self._settings, self.tokenizer.special)

    def judge(
        self, example: RagExample, read: TokenizedExample, layout: Layout
    ) -> Mapping[str, float]:
        """Run the engine, join and read the verdict; return those three stages' seconds.

        Raises:
            BackendError: The engine failed.
        """
        self._backend.seconds = 0.0
        started = time.perf_counter()
        pad, faithfulness = self.tokenizer.special.pad, self._info.faithfulness
        running = InferenceJob([layout], self._backend, self._lanes, pad, self._filling)
        outputs = running.wait()[0].join(faithfulness)
        joined = time.perf_counter()
        preprocessed = PreprocessedExample(example, read, layout)
        to_evaluation(preprocessed, outputs, self._info.thresholds)
        ended = time.perf_counter()
        engine = self._backend.seconds
        return {
            "engine": engine,
            "join": joined - started - engine,  # packing and padding the calls included
            "verdict": ended - joined,
        }

    def time(self, example: RagExample) -> Mapping[str, float]:
        """Judge an example; return the seconds of ``STAGES`` and their total, and its sizes."""
        started = time.perf_counter()
        read = self.read(example)
        tokenized = time.perf_counter()
        layout = self.lay_out(read)
        cut = time.perf_counter()
        stages = self.judge(example, read, layout)
        return {
            "total": time.perf_counter() - started,
            "tokenize": tokenized - started,
            "lay_out": cut - tokenized,
            **stages,
            "context_tokens": len(read.context),
            "other_tokens": len(read.question) + len(read.response),
            "windows": len(layout.rows),
        }


def build(folder: Path, engine: str, threads: int, other_tokens: int = OTHER_TOKENS) -> Run:
    """Return what judges an example of as many context tokens as its case says."""
    bundle, backend = load_engine(folder, engine, threads)
    pipeline = Pipeline(bundle, backend)
    examples: dict[int, RagExample] = {}

    def run(context_tokens: int) -> Mapping[str, float]:
        if context_tokens not in examples:
            examples[context_tokens] = build_example(
                pipeline.tokenizer, context_tokens, other_tokens
            )
        return pipeline.time(examples[context_tokens])

    return run
