"""From texts to layouts: examples are checked, tokenized in one batch and cut into windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from trivet.data.sentence_features import ContextValues
from trivet.data.tokenization import (
    SegmentTokenizer,
    TokenizedExample,
    tokenize_examples,
    with_response,
)
from trivet.data.windows import Layout, WindowSettings, lay_out
from trivet.errors import BackendError, ExampleError, WindowError
from trivet.logs.context_values import as_passages
from trivet.records import FailedEvaluation, RagExample
from trivet.report.shown_sources import number_citations

MAX_CHARACTERS = 2_000_000
MAX_WINDOWS = 20_000

_ALLOW = (
    "nothing can be supported or relevant; set allow_empty_contexts (--allow-empty-contexts) to "
    "evaluate such an example"
)

Refusal: TypeAlias = ExampleError | WindowError | BackendError
"""Errors that concern one example alone; the others of its batch go on."""


@dataclass(frozen=True, slots=True)
class PreprocessedExample:
    """An example as the caller gave it, tokenized and cut into windows."""

    example: RagExample
    tokens: TokenizedExample
    layout: Layout

    @property
    def id(self) -> str | None:
        """Name of the example."""
        return self.example.id


@dataclass(frozen=True)
class Preprocessor:
    """Preprocessing for one bundle."""

    tokenizer: SegmentTokenizer  # tokenizer of the bundle
    settings: WindowSettings  # window settings of the bundle
    max_characters: int = MAX_CHARACTERS  # maximum characters of a passage, question or response
    max_windows: int = MAX_WINDOWS  # maximum windows of one example
    structured: bool = True  # as in ``data.tokenization.tokenize_examples``

    def preprocess(
        self,
        examples: Sequence[RagExample | PreprocessedExample],
        *,
        allow_empty_contexts: bool = False,
    ) -> list[PreprocessedExample | Refusal]:
        """Check examples, tokenize them in one batch and lay them out.

        Returns:
            Each example ready for a backend, or the error that ``Evaluator.evaluate`` would raise;
            those that are ready already as they are.
        """
        checked: list[RagExample | PreprocessedExample | Refusal] = []
        for example in examples:
            try:
                if isinstance(example, RagExample):
                    checked.append(self._check(example, allow_empty_contexts))
                else:
                    checked.append(example)
            except ExampleError as error:
                checked.append(error)
        accepted = [outcome for outcome in checked if isinstance(outcome, RagExample)]
        tokenized = iter(self._tokenize(accepted))
        outcomes: list[PreprocessedExample | Refusal] = []
        for example, outcome in zip(examples, checked, strict=True):
            if isinstance(example, RagExample) and isinstance(outcome, RagExample):
                outcome = self._lay_out_own(example, next(tokenized), allow_empty_contexts)
            assert not isinstance(outcome, RagExample)
            outcomes.append(outcome)
        return outcomes

    def _tokenize(self, examples: Sequence[RagExample]) -> list[TokenizedExample | ExampleError]:
        """Tokenize examples in one batch, or one by one if one of them is refused."""
        leads = self.settings.leads
        try:
            sort, read = self.settings.sort_contexts, self.structured
            return [*tokenize_examples(examples, self.tokenizer, leads, structured=read, sort=sort)]
        except ExampleError as error:
            if len(examples) == 1:
                return [error]
            return [tokens for example in examples for tokens in self._tokenize([example])]

    def _lay_out_own(
        self, example: RagExample, tokens: TokenizedExample | ExampleError, allow_empty: bool
    ) -> PreprocessedExample | Refusal:
        """Cut a tokenized example; the one that the caller gave keeps its own texts."""
        if isinstance(tokens, ExampleError):
            return tokens
        try:
            layout = self.lay_out(tokens, allow_empty)
        except (ExampleError, WindowError) as error:
            return error
        if not isinstance(example.contexts, tuple):
            texts, names = as_passages(example.contexts)
            example = replace(example, contexts=texts, context_names=example.context_names or names)
        return PreprocessedExample(example, tokens, layout)

    def with_response(
        self, prepared: PreprocessedExample, response: str, *, allow_empty_contexts: bool = False
    ) -> PreprocessedExample:
        """Return an example without a response with one; its contexts are not tokenized again.

        Raises:
            ExampleError: The response cannot be evaluated.
        """
        example = replace(prepared.example, response=response)
        checked = self._check(example, allow_empty_contexts)
        (segment,) = self.tokenizer.encode([checked.response])
        tokens = with_response(prepared.tokens, checked.response, segment)
        return PreprocessedExample(example, tokens, self.lay_out(tokens, allow_empty_contexts))

    def _check(self, example: RagExample, allow_empty_contexts: bool) -> RagExample:
        """Refuse an example that cannot be evaluated, before it is tokenized.

        In the example returned blank texts are empty, and marks that name a context are numbers.
        """
        contexts, names = example.contexts, example.context_names
        if not isinstance(contexts, tuple):
            contexts, passage_names = as_passages(contexts)
            names = names or passage_names
        if example.context_names and len(example.context_names) != len(contexts):
            raise ExampleError(
                f"context_names are {len(example.context_names)} for {len(contexts)} contexts; "
                "give one for each, or none"
            )
        texts = {"question": example.question, "response": example.response}
        texts |= {f"contexts[{number}]": text for number, text in enumerate(contexts)}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise ExampleError(f"{name} must be a string, not {type(text).__name__}")
            if len(text) > self.max_characters:
                raise ExampleError(
                    f"{name} has {len(text)} characters, more than max_characters "
                    f"({self.max_characters}); split it or raise max_characters "
                    "(--max-characters)",
                    code="too_long",
                )
        # Some tokenizers would make a token of white space alone.
        blank = [not text.strip() for text in contexts]
        if not allow_empty_contexts and all(blank):
            what = "all contexts are empty" if contexts else "there are no contexts"
            raise ExampleError(f"{what}; {_ALLOW}", code="empty_contexts")
        spans = example.context_sentences
        if any(blank):
            pairs = zip(contexts, blank, strict=True)
            contexts = tuple("" if empty else text for text, empty in pairs)
            if spans is not None and len(spans) == len(blank):
                spans = tuple(() if empty else s for s, empty in zip(spans, blank, strict=True))
        example = replace(example, contexts=contexts, context_sentences=spans)
        if not example.response.strip():
            return replace(example, response="", response_sentences=None)
        if names:
            example = replace(example, response=number_citations(example.response, names))
        return example

    def lay_out(
        self,
        tokens: TokenizedExample,
        allow_empty_contexts: bool,
        contexts: ContextValues | None = None,
    ) -> Layout:
        """Cut an example, unless no context token is left or there are too many windows.

        ``contexts`` as in ``data.windows.lay_out``.
        """
        if not len(tokens.context) and not allow_empty_contexts:
            raise ExampleError(f"the contexts hold no token; {_ALLOW}", code="empty_contexts")
        special = self.tokenizer.special
        return lay_out(tokens, self.settings, special, contexts, self.max_windows)


def count_characters(example: RagExample | PreprocessedExample | FailedEvaluation) -> int:
    """Return about how many characters are to be tokenized; values that are not text count 0."""
    if not isinstance(example, RagExample):
        return 0
    contexts = example.contexts if isinstance(example.contexts, tuple | list) else ()
    texts = (example.question, example.response, *contexts)
    return sum(len(text) for text in texts if isinstance(text, str))
