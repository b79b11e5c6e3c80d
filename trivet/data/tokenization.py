"""One example's texts to numbers, nothing cut yet: ids, offsets, and the sentence of every token.

Torch-free. Training, evaluation and serving all read examples here, so a sentence is the same
sentence everywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trivet.data.segment_tokenizer import IntArray, Segment, SegmentTokenizer
from trivet.data.sentences import split_sentences
from trivet.records import ContextSpan, ExampleError, RagExample, Span, replace_surrogates


@dataclass(frozen=True, slots=True)
class TokenizedExample:
    """One example, tokenized. Sentences in which no token stands are left out.

    Attributes:
        question: The question.
        context: All contexts, one after the other; offsets count within each token's own context.
        context_index: The context of each context token. *Shape:* [C].
        context_sentence: Running number of each context token's sentence, over all contexts.
            *Shape:* [C].
        context_sentence_spans: One span for each running number.
        response: The response.
        response_sentence: Number of each response token's sentence. *Shape:* [R].
        response_sentence_spans: One span for each number.
        replaced_characters: Lone surrogates, read as U+FFFD.
    """

    question: Segment
    context: Segment
    context_index: IntArray
    context_sentence: IntArray
    context_sentence_spans: tuple[ContextSpan, ...]
    response: Segment
    response_sentence: IntArray
    response_sentence_spans: tuple[Span, ...]
    replaced_characters: int


def tokenize_examples(
    examples: Sequence[RagExample], tokenizer: SegmentTokenizer
) -> list[TokenizedExample]:
    """Tokenize examples: every passage, question and response once, all in one batch.

    Raises:
        ExampleError: Sentences that an example brings do not lie in its text.
    """
    texts: list[str] = []
    for example in examples:
        texts += [example.question, example.response, *example.contexts]
    segments = iter(tokenizer.encode(texts))
    read = []
    for example in examples:
        question, response = next(segments), next(segments)
        passages = [next(segments) for _ in example.contexts]
        read.append(_read_one(example, question, response, passages))
    return read


def _read_one(
    example: RagExample, question: Segment, response: Segment, passages: list[Segment]
) -> TokenizedExample:
    brought = example.context_sentences
    if brought is not None and len(brought) != len(example.contexts):
        raise ExampleError(
            f"sentences are given for {len(brought)} contexts, but there are "
            f"{len(example.contexts)}; give one tuple of spans a context, or None",
            code="bad_sentences",
        )
    context_sentence: list[IntArray] = []
    context_spans: list[ContextSpan] = []
    for number, (text, passage) in enumerate(zip(example.contexts, passages, strict=True)):
        own = None if brought is None else brought[number]
        sentence, spans = _sentences_of(text, passage, own, what=f"context {number}")
        context_sentence.append(sentence + len(context_spans))
        context_spans += [ContextSpan(number, span.start, span.end) for span in spans]
    response_sentence, response_spans = _sentences_of(
        example.response, response, example.response_sentences, what="response"
    )
    return TokenizedExample(
        question=question,
        context=Segment(
            ids=_concatenate([passage.ids for passage in passages]),
            offsets=_concatenate([p.offsets for p in passages]).reshape(-1, 2),
        ),
        context_index=np.repeat(np.arange(len(passages)), [len(p) for p in passages]),
        context_sentence=_concatenate(context_sentence),
        context_sentence_spans=tuple(context_spans),
        response=response,
        response_sentence=response_sentence,
        response_sentence_spans=response_spans,
        replaced_characters=sum(
            replace_surrogates(text)[1]
            for text in (example.question, example.response, *example.contexts)
        ),
    )


def _sentences_of(
    text: str, segment: Segment, brought: tuple[Span, ...] | None, what: str
) -> tuple[IntArray, tuple[Span, ...]]:
    """Number the sentence of every token, and keep the sentences in which a token stands."""
    # Tokens may stand where the splitter sees white space alone; they are one sentence.
    spans = brought or split_sentences(text) or (Span(0, len(text)),)
    if brought:
        ends = [0] + [span.end for span in brought]
        starts = [span.start for span in brought] + [len(text)]
        if any(end > start for end, start in zip(ends, starts, strict=True)):
            raise ExampleError(
                f"the sentences given for the {what} ({len(text)} characters) must be in order, "
                "must not overlap and must lie in the text",
                code="bad_sentences",
            )
    if not len(segment):
        return np.zeros(0, dtype=np.int64), ()
    # The last character decides: a token may begin with the white space before its word.
    last = np.maximum(segment.offsets[:, 1] - 1, segment.offsets[:, 0])
    begins = np.asarray([span.start for span in spans])
    number = np.maximum(np.searchsorted(begins, last, side="right") - 1, 0)
    kept = np.bincount(number, minlength=len(spans)) > 0
    renumbered = np.cumsum(kept) - 1
    return renumbered[number], tuple(itertools.compress(spans, kept))


def _concatenate(arrays: Sequence[IntArray]) -> IntArray:
    return (
        np.concatenate([np.zeros((0, *arrays[0].shape[1:]), np.int64), *arrays])
        if arrays
        else (np.zeros(0, dtype=np.int64))
    )
