"""One call from texts to verdicts, for one example or a stream of them.

Reading, cutting, running and joining happen elsewhere; here is their order, which inputs are
refused before any of it, and whose error is whose.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeAlias, TypeVar

from trivet.data.reading import ReadExample, read_examples
from trivet.data.windows import Layout, WindowSettings, lay_out
from trivet.model.aggregate import Outputs
from trivet.model.bundle import Bundle, Thresholds, read_bundle
from trivet.records import (
    EngineError,
    Evaluation,
    ExampleError,
    FailedEvaluation,
    RagExample,
    TokenVerdict,
    WindowError,
)
from trivet.serve.backend import Backend, ShapedBackend
from trivet.serve.engine_calls import POSITIONS, run_layouts
from trivet.serve.loading import (
    DEFAULT_BUNDLE,
    EngineName,
    Precision,
    answering_precision,
    load_backend,
    load_tokenizer,
)
from trivet.serve.verdict import read_tokens, read_verdict

# A block is tokenized in one batch and its windows are packed together. The tokenizer takes about
# 150 bytes a character, so long examples make a block of their own.
_BLOCK_EXAMPLES = 64
_BLOCK_CHARACTERS = 500_000

MAX_CHARACTERS = 2_000_000
MAX_WINDOWS = 20_000

_ALLOW = (
    "nothing can be supported or relevant; allow_empty_contexts (--allow-empty-contexts) judges "
    "the response against nothing"
)

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")
Refusal: TypeAlias = ExampleError | WindowError | EngineError
Reading: TypeAlias = Callable[[RagExample, ReadExample, Layout, Outputs, Thresholds], T]


class Evaluator:
    """Judges examples with one bundle. Loaded once, used from as many threads as you like.

    Attributes:
        bundle: The bundle that answers.
        precision: Of the graph that answers.
    """

    def __init__(
        self,
        bundle: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        *,
        precision: Precision | None = None,
        engine: EngineName = "onnx",
        backend: Backend | None = None,
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
            engine: ``onnx``; ``openvino``, the faster one; or ``tensorrt``: the engine that
                ``trivet export`` built here.
            backend: An engine that holds the bundle's weights already, in fp32; no graph is needed
                then, and none is loaded.
            positions: The most positions of one engine call; a GPU wants more than a CPU. An engine
                that was built for certain shapes has its own say.
            max_characters: Longest passage, question or response that is accepted.
            max_windows: Most windows of one example.

        Raises:
            BundleError: The bundle is refused; the message names the file.
            ValueError: ``threads`` is below 1.
        """
        self.bundle: Bundle = read_bundle(DEFAULT_BUNDLE if bundle is None else Path(bundle))
        self._tokenizer = load_tokenizer(self.bundle)
        self._backend = backend or load_backend(self.bundle, threads, precision, engine)
        self.precision: Precision = precision or "fp32"
        if backend is None:
            self.precision = answering_precision(self.bundle, precision, engine)
        self._filling: tuple[int, int, int | None] = (positions, 1, None)
        if isinstance(self._backend, ShapedBackend):
            shaped = self._backend
            self._filling = (shaped.positions, shaped.step, shaped.most_windows)
        window = self.bundle.info.window
        self._settings = WindowSettings(
            window.size, window.overlap, window.sizes, window.break_even
        )
        self._max_characters = max_characters
        self._max_windows = max_windows

    @property
    def engine(self) -> str:
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
            EngineError: The engine failed.
        """
        example = RagExample(question, _as_passages(contexts), response, id)
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
        example = RagExample(question, _as_passages(contexts), response)
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

        Lazy on both sides: a block of up to 64 examples is read, judged together, and yielded.

        Args:
            examples: What to judge; what failed before (a row that could not be read) is passed on
                in its place.
            allow_empty_contexts: As in ``evaluate``.

        Yields:
            The verdict on each example, or why there is none.
        """
        for block in _blocks(examples):
            asked = [example for example in block if isinstance(example, RagExample)]
            judged = iter(self._judge(asked, allow_empty_contexts, read_verdict))
            for example in block:
                if isinstance(example, FailedEvaluation):
                    yield example
                    continue
                result = next(judged)
                yield _failure(result, example) if isinstance(result, Refusal) else result

    def _judge(
        self, examples: Sequence[RagExample], allow_empty_contexts: bool, reading: Reading[T]
    ) -> list[T | Refusal]:
        """Judge examples together; return for each what was read of it, or its error."""
        judged: dict[int, T | Refusal] = {}

        def go_on(stage: Mapping[int, S | Refusal]) -> dict[int, S]:
            """Put what failed in its example's place; return what is left, by its number."""
            left: dict[int, S] = {}
            for number, value in stage.items():
                if isinstance(value, Refusal):
                    judged[number] = value
                else:
                    left[number] = value
            return left

        checked = go_on(
            {n: _attempt(self._check, e, allow_empty_contexts) for n, e in enumerate(examples)}
        )
        reads = go_on(dict(zip(checked, self._read(list(checked.values())), strict=True)))
        layouts = go_on(
            {n: _attempt(self._lay_out, read, allow_empty_contexts) for n, read in reads.items()}
        )
        answers = run_layouts(
            list(layouts.values()),
            self._backend,
            self._tokenizer.special.pad,
            self.bundle.info.faithfulness,
            *self._filling,
        )
        for n, outputs in go_on(dict(zip(layouts, answers, strict=True))).items():
            judged[n] = _attempt(
                reading,
                examples[n],
                reads[n],
                layouts[n],
                outputs,
                self.bundle.info.thresholds,
            )
        return [judged[number] for number in range(len(examples))]

    def _check(self, example: RagExample, allow_empty_contexts: bool) -> RagExample:
        """Refuse what cannot be judged, before a tokenizer sees it."""
        passages = _as_passages(example.contexts)
        texts = {"question": example.question, "response": example.response}
        texts |= {f"context {number}": text for number, text in enumerate(passages)}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise ExampleError(f"{name} must be a string, not {type(text).__name__}")
            if len(text) > self._max_characters:
                raise ExampleError(
                    f"{name} has {len(text)} characters, more than max_characters="
                    f"{self._max_characters}; split it, or raise Evaluator(max_characters=...)",
                    code="too_long",
                )
        if not allow_empty_contexts and not any(text.strip() for text in passages):
            what = "all contexts are empty" if passages else "there are no contexts"
            raise ExampleError(f"{what}; {_ALLOW}", code="empty_contexts")
        return _without_blanks(replace(example, contexts=passages))

    def _read(self, examples: Sequence[RagExample]) -> Sequence[ReadExample | ExampleError]:
        """Tokenize in one batch; where an example is refused, one by one to find out which."""
        try:
            return read_examples(examples, self._tokenizer)
        except ExampleError as error:
            if len(examples) == 1:
                return [error]
        return [read for example in examples for read in self._read([example])]

    def _lay_out(self, read: ReadExample, allow_empty_contexts: bool) -> Layout:
        """Cut an example, unless no token is left to judge or there are far too many."""
        if not len(read.context) and not allow_empty_contexts:
            raise ExampleError(f"the contexts hold no token; {_ALLOW}", code="empty_contexts")
        windows = self._settings.plan(read).windows
        if windows > self._max_windows:
            # The maps of so many windows alone would fill the memory.
            raise ExampleError(
                f"{len(read.context)} context tokens and {len(read.response)} response tokens make "
                f"about {windows} windows, more than max_windows={self._max_windows}; judge fewer "
                "contexts or a shorter response, or raise Evaluator(max_windows=...)",
                code="too_long",
            )
        return lay_out(read, self._settings, self._tokenizer.special)


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


def _as_passages(contexts: object) -> tuple[str, ...]:
    """Return contexts as a tuple; a bare string would be read letter by letter."""
    if isinstance(contexts, str | bytes | Mapping) or not isinstance(contexts, Iterable):
        raise ExampleError(
            f"contexts must be a list of passages, not {type(contexts).__name__}; "
            "write contexts=[text]"
        )
    return tuple(contexts)


def _without_blanks(example: RagExample) -> RagExample:
    """Empty the texts that are white space alone: some tokenizers would make a token of it."""
    blank = [not text.strip() for text in example.contexts]
    if any(blank):
        brought = example.context_sentences
        texts = zip(example.contexts, blank, strict=True)
        example = replace(example, contexts=tuple("" if empty else text for text, empty in texts))
        if brought is not None and len(brought) == len(blank):
            spans = zip(brought, blank, strict=True)
            kept = tuple(() if empty else own for own, empty in spans)
            example = replace(example, context_sentences=kept)
    if not example.response.strip():
        example = replace(example, response="", response_sentences=None)
    return example


def _attempt(step: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | Refusal:
    """Return what ``step`` returns, or the error that concerns its example alone."""
    try:
        return step(*arguments, **named)
    except (ExampleError, WindowError, EngineError) as error:
        return error


def _failure(error: Refusal, example: RagExample) -> FailedEvaluation:
    """Return the failure that stands in an example's place."""
    code = {EngineError: "engine_failed", WindowError: "window"}.get(type(error))
    if code is None:
        return FailedEvaluation.of(error, example.id)
    return FailedEvaluation(example.id, code, str(error))


def _blocks(
    examples: Iterable[RagExample | FailedEvaluation],
) -> Iterator[list[RagExample | FailedEvaluation]]:
    """Group a stream into blocks of a bounded number of examples and of characters."""
    block: list[RagExample | FailedEvaluation] = []
    characters = 0
    for example in examples:
        block.append(example)
        characters += _length(example)
        if len(block) >= _BLOCK_EXAMPLES or characters >= _BLOCK_CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _length(example: RagExample | FailedEvaluation) -> int:
    """Return about how many characters an example has; what is no text counts as nothing."""
    if isinstance(example, FailedEvaluation):
        return 0
    contexts = example.contexts if isinstance(example.contexts, tuple | list) else ()
    texts = (example.question, example.response, *contexts)
    return sum(len(text) for text in texts if isinstance(text, str))
