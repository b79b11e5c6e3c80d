"""From texts to layouts: which examples are refused before an engine sees them, and by what name.

Examples are checked, tokenized in one batch and cut. What is wrong with one is that one's error;
the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeAlias, TypeVar

from trivet.data.segment_tokenizer import SegmentTokenizer
from trivet.data.tokenization import TokenizedExample, tokenize_examples
from trivet.data.windows import Layout, WindowSettings, lay_out
from trivet.records import BackendError, ExampleError, FailedEvaluation, RagExample, WindowError

MAX_CHARACTERS = 2_000_000
MAX_WINDOWS = 20_000

_ALLOW = (
    "nothing can be supported or relevant; allow_empty_contexts (--allow-empty-contexts) judges "
    "the response against nothing"
)

T = TypeVar("T")
P = ParamSpec("P")
Refusal: TypeAlias = ExampleError | WindowError | BackendError


@dataclass(frozen=True, slots=True)
class Prepared:
    """An example that is ready for an engine.

    Attributes:
        example: The texts as the caller gave them.
        read: The same, tokenized.
        layout: The same, cut into windows.
    """

    example: RagExample
    read: TokenizedExample
    layout: Layout


@dataclass(frozen=True, slots=True)
class Preparation:
    """How examples are prepared for one bundle.

    Attributes:
        tokenizer: The bundle's.
        settings: How the bundle cuts.
        max_characters: Longest passage, question or response that is accepted.
        max_windows: Most windows of one example.
        allow_empty_contexts: Whether a response may be judged against nothing.
    """

    tokenizer: SegmentTokenizer
    settings: WindowSettings
    max_characters: int = MAX_CHARACTERS
    max_windows: int = MAX_WINDOWS
    allow_empty_contexts: bool = False

    def prepare(self, examples: Sequence[RagExample]) -> list[Prepared | Refusal]:
        """Check, tokenize in one batch and lay out; return each example ready, or its error."""
        checked = [attempt(self._check, example) for example in examples]
        reads = iter(self._read([each for each in checked if isinstance(each, RagExample)]))
        return [
            each if isinstance(each, Refusal) else self._ready(example, next(reads))
            for example, each in zip(examples, checked, strict=True)
        ]

    def _ready(
        self, example: RagExample, read: TokenizedExample | ExampleError
    ) -> Prepared | Refusal:
        if isinstance(read, Refusal):
            return read
        layout = attempt(self._lay_out, read)
        return layout if isinstance(layout, Refusal) else Prepared(example, read, layout)

    def _check(self, example: RagExample) -> RagExample:
        """Refuse what cannot be judged, before a tokenizer sees it."""
        passages = as_passages(example.contexts)
        texts = {"question": example.question, "response": example.response}
        texts |= {f"context {number}": text for number, text in enumerate(passages)}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise ExampleError(f"{name} must be a string, not {type(text).__name__}")
            if len(text) > self.max_characters:
                raise ExampleError(
                    f"{name} has {len(text)} characters, more than max_characters="
                    f"{self.max_characters}; split it, or raise Evaluator(max_characters=...)",
                    code="too_long",
                )
        if not self.allow_empty_contexts and not any(text.strip() for text in passages):
            what = "all contexts are empty" if passages else "there are no contexts"
            raise ExampleError(f"{what}; {_ALLOW}", code="empty_contexts")
        return _without_blanks(replace(example, contexts=passages))

    def _read(self, examples: Sequence[RagExample]) -> Sequence[TokenizedExample | ExampleError]:
        """Tokenize in one batch; where an example is refused, one by one to find out which."""
        try:
            return tokenize_examples(examples, self.tokenizer)
        except ExampleError as error:
            if len(examples) == 1:
                return [error]
        return [read for example in examples for read in self._read([example])]

    def _lay_out(self, read: TokenizedExample) -> Layout:
        """Cut an example, unless no token is left to judge or there are far too many."""
        if not len(read.context) and not self.allow_empty_contexts:
            raise ExampleError(f"the contexts hold no token; {_ALLOW}", code="empty_contexts")
        windows = self.settings.plan(read).windows
        if windows > self.max_windows:
            # The maps of so many windows alone would fill the memory.
            raise ExampleError(
                f"{len(read.context)} context tokens and {len(read.response)} response tokens make "
                f"about {windows} windows, more than max_windows={self.max_windows}; judge fewer "
                "contexts or a shorter response, or raise Evaluator(max_windows=...)",
                code="too_long",
            )
        return lay_out(read, self.settings, self.tokenizer.special)


def attempt(step: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | Refusal:
    """Return what ``step`` returns, or the error that concerns its example alone."""
    try:
        return step(*arguments, **named)
    except (ExampleError, WindowError, BackendError) as error:
        return error


def failure_of(error: Refusal, example: RagExample) -> FailedEvaluation:
    """Return the failure that stands in an example's place."""
    if isinstance(error, WindowError):
        return FailedEvaluation(example.id, "window", str(error))
    return FailedEvaluation.of(error, example.id)


def as_passages(contexts: object) -> tuple[str, ...]:
    """Return contexts as a tuple; a bare string would be read letter by letter.

    Raises:
        ExampleError: They are no list.
    """
    if isinstance(contexts, str | bytes | Mapping) or not isinstance(contexts, Iterable):
        raise ExampleError(
            f"contexts must be a list of passages, not {type(contexts).__name__}; "
            "write contexts=[text]"
        )
    return tuple(contexts)


def count_characters(example: RagExample | FailedEvaluation) -> int:
    """Return about how many characters an example has; what is no text counts as nothing."""
    if isinstance(example, FailedEvaluation):
        return 0
    contexts = example.contexts if isinstance(example.contexts, tuple | list) else ()
    texts = (example.question, example.response, *contexts)
    return sum(len(text) for text in texts if isinstance(text, str))


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
