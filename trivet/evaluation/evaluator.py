"""From texts to verdicts in one call, for one example or a stream of them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, Unpack

from trivet.backends.backend import POSITIONS, Backend, LoadedBackend, ShapedBackend, workers_of
from trivet.backends.opening import check_options, load_backend, load_tokenizer
from trivet.bundle.bundle import Bundle, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.evaluation.answer_stream import AnswerStream, SentenceReader, StreamWindows
from trivet.evaluation.correction import Correction, CorrectionMode, correct
from trivet.evaluation.example_batch import ExampleBatch, Joined
from trivet.evaluation.packing import BatchLimits, WindowAccumulator
from trivet.evaluation.postprocessing import Decision, to_token_verdicts
from trivet.evaluation.preprocessing import (
    MAX_CHARACTERS,
    MAX_WINDOWS,
    PreprocessedExample,
    Preprocessor,
)
from trivet.evaluation.scheduler import Scheduler
from trivet.evaluation.streams import blocks, iterate_in_thread, prefetch, wait_for_rows
from trivet.evaluation.window_queue import Job
from trivet.interface import Options, Result, Results, check_threshold, checked
from trivet.logs.context_values import named_example
from trivet.logs.conversation import Turns, read_turns
from trivet.logs.rows import count_rows, read_examples
from trivet.records import Evaluation, FailedEvaluation, RagExample, TokenVerdict
from trivet.settings import BackendName, Precision, ThresholdName


class Evaluator:
    """Evaluates examples with one bundle. Loaded once; thread-safe.

    In four steps: ``prepare`` makes windows of texts, the scheduler has the backend run these, and
    the batch joins the answers to probabilities and reads the verdicts.

    Attributes:
        bundle, preprocessor: The bundle, and its preprocessing.
        backend, precision: The backend that runs its graph, and the precision of the graph.
        limits, workers: Limits of a backend call, and number of calls that run at once.
        pad: Token id of padding.
    """

    def __init__(
        self,
        bundle: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        *,
        precision: Precision | None = None,
        backend: BackendName | Backend | None = None,
        device: str | None = None,
        positions: int = POSITIONS,
        max_characters: int = MAX_CHARACTERS,
        max_windows: int = MAX_WINDOWS,
    ) -> None:
        """Load a bundle; every file is checked and the backend passes a self-test first.

        Args:
            bundle: Folder of a bundle, or ``org/name`` or ``org/name@revision`` on the hub;
                ``None`` or ``embedded`` means the one in the package.
            threads: Threads of the backend; ``None`` means one for each core.
            precision: ``int8`` or ``fp32``, on a GPU also ``bf16`` or ``fp16``; ``None`` means the
                fastest graph of the bundle.
            backend: ``onnx``; ``openvino``, faster with VNNI; ``torch``; ``tensorrt``, an engine
                that ``trivet export`` built on this machine; or a loaded backend with the weights
                of the bundle in fp32, which runs one call at a time unless it has ``workers``.
                ``None`` means ``onnx`` on a CPU; on a GPU an engine if there is one, else ``torch``
                if it is installed.
            device: ``cpu``, ``cuda`` or ``cuda:N``; ``None`` takes a GPU if there is one that the
                backend can use.
            positions: Maximum positions of one backend call, unless it has limits of its own.
            max_characters: Maximum characters of a passage, question or response.
            max_windows: Maximum windows of one example.

        Raises:
            BackendError: There is no such backend, precision or device.
            BundleError: The bundle is refused; the message names the file.
            TypeError: An argument is of another kind.
            ValueError: A number is below 1.
        """
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        check_options(
            bundle,
            precision,
            backend,
            device,
            threads=threads,
            positions=positions,
            max_characters=max_characters,
            max_windows=max_windows,
        )
        self.bundle: Bundle = read_bundle(EMBEDDED_BUNDLE.name if bundle is None else bundle)
        tokenizer = load_tokenizer(self.bundle)
        self.backend, self.precision = (
            load_backend(self.bundle, threads, precision, backend, None, device)
            if backend is None or isinstance(backend, str)
            else LoadedBackend(backend, precision or "fp32")
        )
        self.limits = BatchLimits(positions)
        if isinstance(self.backend, ShapedBackend):
            shaped = self.backend
            self.limits = BatchLimits(shaped.positions, shaped.step, shaped.max_windows)
        self.workers = workers_of(self.backend)
        settings = self.bundle.info.window
        self.preprocessor = Preprocessor(tokenizer, settings, max_characters, max_windows)
        self.pad = tokenizer.special.pad
        self._scheduler = Scheduler(self.backend, self.pad, self.limits)
        weakref.finalize(self, self._scheduler.close).atexit = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments: a copy loads its own bundle."""
        return functools.partial(type(self), **self._arguments), ()

    @property
    def backend_name(self) -> str:
        """Name of the backend and of the graph's file."""
        return self.backend.name

    def evaluate(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        response: str,
        *,
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> Evaluation:
        """Evaluate one example.

        Args:
            question: Question; may be empty.
            contexts: Retrieved passages: strings, or objects with their text, such as documents of
                LangChain, LlamaIndex and Haystack; one string is one passage.
            response: Answer; with ``""`` only relevance is evaluated.
            id: Name of the example, repeated in the verdict.
            options: ``allow_empty_contexts`` evaluates an example without contexts, whose context
                scores are then ``None``. ``threshold``: support below which a sentence is
                unsupported, a number in [0, 1], or ``careful``, ``balanced`` (the default) or
                ``strict`` of the bundle; higher ones find more and raise more false alarms.
                ``strict`` takes spans to check as unsupported.

        Raises:
            ExampleError: The example cannot be evaluated; ``code`` gives the reason:
                ``empty_contexts``, ``too_long``, ``invalid_row``.
            BackendError: The backend failed.
        """
        example = named_example(question, contexts, response, id)
        return self._evaluate(example, **options)

    def evaluate_messages(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        contexts: Sequence[Any] | str | None = None,
        turns: Turns = "last",
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> list[Result]:
        """Evaluate the last answer of a conversation, or each; one result for each of them.

        Arguments and errors as of `read_turns`; what fails has its failure.
        """
        examples = [turn.example for turn in read_turns(messages, contexts, turns, id)]
        return self.begin(examples, **options).results()

    def evaluate_tokens(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        response: str,
        **options: Unpack[Options],
    ) -> tuple[TokenVerdict, ...]:
        """Evaluate the tokens of one response; arguments and errors as in ``evaluate``.

        Returns:
            One verdict for each token of the bundle's tokenizer, in order. A token is unsupported
            if an unsupported span of the verdict touches it.
        """
        example = named_example(question, contexts, response)
        batch = self.begin([example], **options)
        (joined,) = batch.join()
        if not isinstance(joined, Joined):
            raise joined
        return to_token_verdicts(joined.example, joined.outputs, batch.decision)

    def evaluate_many(
        self,
        examples: Iterable[Any],
        *,
        mapping: Mapping[str, str] | None = None,
        progress: bool = False,
        **options: Unpack[Options],
    ) -> Results:
        """Evaluate a stream of examples in order, with one result for each, also for failures.

        Lazy on both sides: a block of up to 64 examples is read and evaluated together, and
        yielded when the next one has started.

        Args:
            examples: ``RagExample`` records; dictionaries with the field names of the common
                tools; a DataFrame of pandas or polars; an Arrow table; or a data set of
                ``datasets``. A failure (of a row that could not be read) is passed on.
            mapping: Names for some of our fields, such as ``{"question": "prompt"}``, or paths
                such as ``{"contexts": "outputs.documents[].page_content"}``.
            progress: Whether a progress bar is shown on stderr.
            options: As in ``evaluate``.

        Returns:
            An iterator over the verdict on each example, or the reason why there is none; its
            ``to_pandas()`` makes a DataFrame of all.

        Raises:
            TypeError: ``examples`` hold no rows; the message shows a right call.
            DataError: A table lacks a column, or ``mapping`` names an unknown field.
        """
        read = read_examples(examples, mapping)
        begin = functools.partial(self.begin, **checked(options))

        def results() -> Generator[Result]:
            for batch in prefetch(blocks(read), begin):
                yield from batch.results()

        return Results(results(), count_rows(examples), progress)

    def stream(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        *,
        windows: StreamWindows = "evidence",
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> AnswerStream:
        """Begin to judge an answer while it is written: ``feed`` its text, then ``close``.

        Args:
            question: As in ``evaluate``.
            contexts: As in ``evaluate``; they are tokenized once.
            windows: ``evidence`` judges a sentence on one window of the context sentences that
                share most words with it, ``all`` on all contexts, which takes longer.
            id: As in ``evaluate``.
            options: As in ``evaluate``.

        Raises:
            ExampleError: The question or the contexts cannot be evaluated.
            TypeError, ValueError: ``windows`` or ``threshold`` is unknown.
        """
        check_threshold(checked(options).get("threshold"))
        example = named_example(question, contexts, "", id)
        allows = options.get("allow_empty_contexts", False)
        reader = SentenceReader(self.preprocessor, example, windows, allows)

        return AnswerStream(reader, functools.partial(self._evaluate, **options))

    def correct(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        response: str,
        *,
        mode: CorrectionMode = "drop",
        **options: Unpack[Options],
    ) -> Correction:
        """Correct a response without an LLM; arguments and errors as in ``evaluate``.

        ``drop`` leaves unsupported sentences out; ``quote`` keeps them, each with the context
        sentence that shares most words with it in brackets. Any other ``mode`` is a ``ValueError``,
        and a bundle without a support head a ``BackendError``.
        """
        example = named_example(question, contexts, response)
        return correct(response, self._evaluate(example, **options), mode)

    async def aevaluate(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        response: str,
        *,
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> Evaluation:
        """Evaluate one example as ``evaluate`` does, in a thread: the event loop stays free."""
        run = functools.partial(self.evaluate, id=id, **options)
        return await asyncio.to_thread(run, question, contexts, response)

    async def aevaluate_many(
        self,
        examples: Iterable[Any] | AsyncIterable[Any],
        *,
        mapping: Mapping[str, str] | None = None,
        progress: bool = False,
        **options: Unpack[Options],
    ) -> AsyncGenerator[Result]:
        """Evaluate a stream, asynchronous or not, as ``evaluate_many`` does, in threads."""
        rows = wait_for_rows(examples) if isinstance(examples, AsyncIterable) else examples
        results = self.evaluate_many(rows, mapping=mapping, progress=progress, **options)
        async with contextlib.aclosing(iterate_in_thread(results)) as stream:
            async for result in stream:
                yield result

    def _evaluate(
        self, example: RagExample | PreprocessedExample, **options: Unpack[Options]
    ) -> Evaluation:
        """Evaluate one example, or raise its error."""
        (outcome,) = self.begin([example], **options).verdicts()
        if not isinstance(outcome, Evaluation):
            raise outcome
        return outcome

    def prepare(
        self,
        examples: Sequence[RagExample | PreprocessedExample | FailedEvaluation],
        *,
        allow_empty_contexts: bool = False,
        threshold: float | ThresholdName | None = None,
        strict: bool = False,
    ) -> ExampleBatch:
        """Check, tokenize and cut examples; the options are those of ``evaluate``."""
        check_threshold(threshold)
        decision, info = None, self.bundle.info
        if info.thresholds is not None:
            layer = info.calibration.sentence_layer()
            decision = Decision(info.thresholds.at(threshold), layer, strict)
        prepared = self.preprocessor.preprocess(
            [example for example in examples if not isinstance(example, FailedEvaluation)],
            allow_empty_contexts=allow_empty_contexts,
        )
        accepted = [example for example in prepared if isinstance(example, PreprocessedExample)]
        job = Job([WindowAccumulator(example.layout) for example in accepted])
        return ExampleBatch(examples, prepared, job, self.bundle, decision)

    def begin(
        self,
        examples: Sequence[RagExample | PreprocessedExample | FailedEvaluation],
        **options: Unpack[Options],
    ) -> ExampleBatch:
        """Prepare examples and schedule their windows; what follows waits for these."""
        batch = self.prepare(examples, **options)
        self._scheduler.submit(batch.job)
        return batch


def evaluate(
    question: str,
    contexts: Sequence[Any] | str,
    response: str,
    *,
    id: str | None = None,  # noqa: A002 (the field's name in every record)
    **options: Unpack[Options],
) -> Evaluation:
    """Evaluate one example with the embedded bundle; see ``Evaluator.evaluate``.

    The bundle is loaded at the first call and kept.
    """
    return _default_evaluator().evaluate(question, contexts, response, id=id, **options)


@functools.cache
def _default_evaluator() -> Evaluator:
    return Evaluator()
