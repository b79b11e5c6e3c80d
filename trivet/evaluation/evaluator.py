"""One call from texts to verdicts, for one example or a stream of them.

Checking, reading, cutting, running and joining happen elsewhere; here is their order, and whose
error is whose. Who shares an engine among many callers goes through the same stages one by one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from trivet.backends.backend import POSITIONS, Backend, ShapedBackend
from trivet.backends.graph_choice import LoadedBackend, Precision
from trivet.backends.loading import EMBEDDED_BUNDLE, BackendName, load_backend, load_tokenizer
from trivet.backends.threads import workers_of
from trivet.bundle.bundle import Bundle, Thresholds, read_bundle
from trivet.data.tokenization import TokenizedExample
from trivet.data.windows import Layout, WindowSettings
from trivet.evaluation.inference_job import InferenceJob
from trivet.evaluation.packing import (
    BatchLimits,
    WindowAccumulator,
    WindowSlice,
    run_slices,
)
from trivet.evaluation.postprocessing import read_tokens, read_verdict
from trivet.evaluation.prefetch import prefetch
from trivet.evaluation.preprocessing import (
    MAX_CHARACTERS,
    MAX_WINDOWS,
    Preparation,
    Prepared,
    Refusal,
    as_passages,
    attempt,
    count_characters,
    failure_of,
)
from trivet.evaluation.worker_pool import WorkerPool
from trivet.model.aggregate import Outputs
from trivet.records import (
    BackendError,
    Evaluation,
    FailedEvaluation,
    RagExample,
    TokenVerdict,
)

# A block is tokenized in one batch and its windows are packed together. The tokenizer takes about
# 150 bytes a character, so long examples make a block of their own.
_BLOCK_EXAMPLES = 64
_BLOCK_CHARACTERS = 500_000

T = TypeVar("T")
Reading: TypeAlias = Callable[[RagExample, TokenizedExample, Layout, Outputs, Thresholds], T]


class _Begun(NamedTuple):
    """Examples as they were prepared, and those of them that run."""

    prepared: Sequence[Prepared | Refusal]
    running: InferenceJob


class Evaluator:
    """Judges examples with one bundle. Loaded once, used from as many threads as you like.

    Attributes:
        bundle: The bundle that answers.
        precision: Of the graph that answers.
        limits: How full the engine wants its calls.
        workers: How many of them it likes to run at once.
    """

    def __init__(
        self,
        bundle: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        *,
        precision: Precision | None = None,
        backend: BackendName | Backend = "onnx",
        positions: int = POSITIONS,
        max_characters: int = MAX_CHARACTERS,
        max_windows: int = MAX_WINDOWS,
    ) -> None:
        """Load a bundle; every file is checked and the engine is tested before the first answer.

        Args:
            bundle: The folder of a bundle; ``None`` is the one inside the package.
            threads: Threads the engine uses; ``None`` takes one for each core.
            precision: ``int8`` or ``fp32``, on a card also ``bf16`` or ``fp16``; ``None`` takes the
                fastest graph there is.
            backend: ``onnx``; ``openvino``, the faster one; ``tensorrt``, the engine that
                ``trivet export`` built here; or a loaded backend that holds the bundle's weights
                in fp32. A loaded one runs one call at a time unless it has ``workers``.
            positions: The most positions of one engine call; a GPU wants more than a core. An
                engine that was built for certain shapes has its own say.
            max_characters: Longest passage, question or response that is accepted.
            max_windows: Most windows of one example.

        Raises:
            BundleError: The bundle is refused; the message names the file.
            ValueError: ``threads`` is below 1.
        """
        self.bundle: Bundle = read_bundle(EMBEDDED_BUNDLE if bundle is None else Path(bundle))
        self._tokenizer = load_tokenizer(self.bundle)
        self._backend, self.precision = (
            load_backend(self.bundle, threads, precision, backend)
            if isinstance(backend, str)
            else LoadedBackend(backend, precision or "fp32")
        )
        self.limits = BatchLimits(positions)
        if isinstance(self._backend, ShapedBackend):
            shaped = self._backend
            self.limits = BatchLimits(shaped.positions, shaped.step, shaped.most_windows)
        self.workers = workers_of(self._backend)
        self._pool = WorkerPool(self.workers)
        window = self.bundle.info.window
        self._settings = WindowSettings(
            window.size, window.overlap, window.sizes, window.break_even
        )
        self._max_characters = max_characters
        self._max_windows = max_windows

    @property
    def backend_name(self) -> str:
        """What answers: the engine's name and the graph's file."""
        return self._backend.name

    def evaluate(
        self,
        question: str,
        contexts: Sequence[str],
        response: str,
        *,
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        allow_empty_contexts: bool = False,
    ) -> Evaluation:
        """Judge one example.

        Args:
            question: What was asked; may be empty.
            contexts: The retrieved passages.
            response: The answer; ``""`` asks for relevance alone.
            id: The caller's name for the example; comes back in the verdict.
            allow_empty_contexts: Judge a response against nothing when there are no contexts; the
                context scores are then ``None``.

        Returns:
            The verdict.

        Raises:
            ExampleError: The example cannot be judged; ``code`` says why: ``empty_contexts``,
                ``too_long``, ``invalid_row``.
            BackendError: The engine failed.
        """
        example = RagExample(question, as_passages(contexts), response, id)
        return self._judge_one(example, allow_empty_contexts, read_verdict)

    def evaluate_tokens(
        self,
        question: str,
        contexts: Sequence[str],
        response: str,
        *,
        allow_empty_contexts: bool = False,
    ) -> tuple[TokenVerdict, ...]:
        """Judge the tokens of one response; arguments and errors as in ``evaluate``.

        Returns:
            One for each token of the bundle's tokenizer, in order. One is supported when it reaches
            the bundle's span threshold; unsupported spans are merged from those that do not.
        """
        example = RagExample(question, as_passages(contexts), response)
        return self._judge_one(example, allow_empty_contexts, read_tokens)

    def _judge_one(self, example: RagExample, allow_empty_contexts: bool, reading: Reading[T]) -> T:
        result = self._judge([example], allow_empty_contexts, reading)[0]
        if isinstance(result, Refusal):
            raise result
        return result

    def evaluate_many(
        self,
        examples: Iterable[RagExample | FailedEvaluation],
        *,
        allow_empty_contexts: bool = False,
    ) -> Iterator[Evaluation | FailedEvaluation]:
        """Judge a stream of examples, in order; one result for each, also for those that fail.

        Lazy on both sides: a block of up to 64 examples is read and judged together, and yielded
        when the next one is under way.

        Args:
            examples: What to judge; what failed before (a row that could not be read) is passed on
                in its place.
            allow_empty_contexts: As in ``evaluate``.

        Yields:
            The verdict on each example, or why there is none.
        """
        begin = functools.partial(self.begin, allow_empty_contexts=allow_empty_contexts)
        for judging in prefetch(_blocks(examples), begin):
            yield from judging.results()

    def begin(
        self,
        examples: Sequence[RagExample | FailedEvaluation],
        *,
        allow_empty_contexts: bool = False,
    ) -> Judging:
        """Prepare examples and let them run, while the caller does something else.

        Args:
            examples: As in ``evaluate_many``; they are judged together.
            allow_empty_contexts: As in ``evaluate``.

        Returns:
            What has the results, or can be cancelled.
        """
        asked = [example for example in examples if isinstance(example, RagExample)]
        return Judging(self, examples, self._begin(asked, allow_empty_contexts))

    def prepare(
        self, examples: Sequence[RagExample], *, allow_empty_contexts: bool = False
    ) -> list[Prepared | Refusal]:
        """Check examples, tokenize them in one batch and lay them out; no engine is needed.

        Args:
            examples: What is to be judged.
            allow_empty_contexts: As in ``evaluate``.

        Returns:
            For each example what the engine needs, or the error that ``evaluate`` would raise.
        """
        return Preparation(
            self._tokenizer,
            self._settings,
            self._max_characters,
            self._max_windows,
            allow_empty_contexts,
        ).prepare(examples)

    def run(self, parts: Sequence[WindowSlice], *, all_threads: bool = False) -> Outputs:
        """Run parts of layouts, of any mix of examples, in one engine call; see ``run_slices``.

        Raises:
            BackendError: The engine failed.
        """
        return run_slices(
            parts, self._backend, self._tokenizer.special.pad, all_threads=all_threads
        )

    def join(self, gathering: WindowAccumulator) -> Outputs | BackendError:
        """Reduce what is known of an example to its scores; see ``WindowAccumulator.join``."""
        return gathering.join(self.bundle.info.faithfulness)

    def finish(self, prepared: Prepared, outputs: Outputs) -> Evaluation:
        """Read the verdict off what the engine answered.

        Args:
            prepared: The example.
            outputs: Joined, B = 1.

        Raises:
            BackendError: A number that is to be reported is not finite or no probability.
        """
        return self._finish(prepared, outputs, read_verdict)

    def _finish(self, prepared: Prepared, outputs: Outputs, reading: Reading[T]) -> T:
        thresholds = self.bundle.info.thresholds
        return reading(prepared.example, prepared.read, prepared.layout, outputs, thresholds)

    def _judge(
        self, examples: Sequence[RagExample], allow_empty_contexts: bool, reading: Reading[T]
    ) -> list[T | Refusal]:
        """Judge examples together; return for each what was read of it, or its error."""
        return self._end(self._begin(examples, allow_empty_contexts), reading)

    def _begin(self, examples: Sequence[RagExample], allow_empty_contexts: bool) -> _Begun:
        prepared = self.prepare(examples, allow_empty_contexts=allow_empty_contexts)
        layouts = [each.layout for each in prepared if isinstance(each, Prepared)]
        pad = self._tokenizer.special.pad
        running = InferenceJob(layouts, self._backend, self._pool, pad, self.limits)
        return _Begun(prepared, running)

    def _end(self, begun: _Begun, reading: Reading[T]) -> list[T | Refusal]:
        answers = iter(begun.running.join(self.bundle.info.faithfulness))
        judged: list[T | Refusal] = []
        for each in begun.prepared:
            if not isinstance(each, Prepared):
                judged.append(each)
                continue
            answer = next(answers)
            if isinstance(answer, BackendError):
                judged.append(answer)
            else:
                judged.append(attempt(self._finish, each, answer, reading))
        return judged


class Judging:
    """Examples that wait for the engine, or run; see ``Evaluator.begin``."""

    def __init__(
        self,
        evaluator: Evaluator,
        examples: Sequence[RagExample | FailedEvaluation],
        begun: _Begun,
    ) -> None:
        self._evaluator = evaluator
        self._examples = examples
        self._begun = begun

    def results(self) -> list[Evaluation | FailedEvaluation]:
        """Wait; return one result for each example, in order, also for those that fail."""
        judged = iter(self._evaluator._end(self._begun, read_verdict))
        return [
            example if isinstance(example, FailedEvaluation) else _result(next(judged), example)
            for example in self._examples
        ]

    def cancel(self) -> None:
        """Give up what has not run; there are no results then."""
        self._begun.running.cancel()


def _result(judged: Evaluation | Refusal, example: RagExample) -> Evaluation | FailedEvaluation:
    return failure_of(judged, example) if isinstance(judged, Refusal) else judged


def evaluate(
    question: str,
    contexts: Sequence[str],
    response: str,
    *,
    id: str | None = None,  # noqa: A002 (the field's name in every record)
    allow_empty_contexts: bool = False,
) -> Evaluation:
    """Judge one example with the bundle inside the package; see ``Evaluator.evaluate``.

    The bundle is loaded at the first call and kept.
    """
    return _default_evaluator().evaluate(
        question, contexts, response, id=id, allow_empty_contexts=allow_empty_contexts
    )


@functools.cache
def _default_evaluator() -> Evaluator:
    return Evaluator()


def _blocks(
    examples: Iterable[RagExample | FailedEvaluation],
) -> Iterator[list[RagExample | FailedEvaluation]]:
    """Group a stream into blocks of a bounded number of examples and of characters."""
    block: list[RagExample | FailedEvaluation] = []
    characters = 0
    for example in examples:
        block.append(example)
        characters += count_characters(example)
        if len(block) >= _BLOCK_EXAMPLES or characters >= _BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block
