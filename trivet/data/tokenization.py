"""Tokenize whole examples: ids, offsets, and the sentence of every token, before any windowing.

Training, evaluation and serving all use this file, so they agree on sentences.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from trivet.data.segment_tokenizer import IntArray, Segment, SegmentTokenizer
from trivet.data.sentences import split_sentences
from trivet.records import ContextSpan, ExampleError, RagExample, Span, replace_surrogates

_NONE: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class TokenizedExample:
    """One tokenized example. Sentences without any token are left out.

    Attributes:
        question: The question.
        context: All contexts, one after the other; offsets are relative to each token's context.
        context_index: Context of each context token. *Shape:* [C].
        context_sentence: Sentence number of each context token, counted over all contexts.
            *Shape:* [C].
        context_sentence_spans: Span of each of these sentences.
        response: The response.
        response_sentence: Sentence number of each response token. *Shape:* [R].
        response_sentence_spans: Span of each of these sentences.
        replaced_characters: Number of lone surrogates that were replaced by U+FFFD.
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
    """Tokenize every passage, question and response of some examples once, in one batch.

    Raises:
        ExampleError: Sentences given with an example do not fit its texts.
    """
    texts: list[str] = []
    for example in examples:
        texts += [example.question, example.response, *example.contexts]
    segments = iter(tokenizer.encode(texts))
    tokenized = []
    for example in examples:
        question, response = next(segments), next(segments)
        passages = tuple(itertools.islice(segments, len(example.contexts)))
        tokenized.append(_assemble(example, question, response, passages))
    return tokenized


def _assemble(
    example: RagExample, question: Segment, response: Segment, passages: Sequence[Segment]
) -> TokenizedExample:
    given = example.context_sentences
    if given is not None and len(given) != len(passages):
        raise ExampleError(
            f"sentences are given for {len(given)} contexts, but there are "
            f"{len(passages)}; give one tuple of spans per context, or None",
            code="bad_sentences",
        )
    # The empty arrays are for examples without any context.
    ids, offsets, indices, sentences = [_NONE], [_NONE.reshape(0, 2)], [_NONE], [_NONE]
    context_spans: list[ContextSpan] = []
    replaced = replace_surrogates(example.question)[1] + replace_surrogates(example.response)[1]
    for number, (text, passage) in enumerate(zip(example.contexts, passages, strict=True)):
        own = None if given is None else given[number]
        sentence, spans = _assign_sentences(text, passage, own, f"context {number}")
        ids.append(passage.ids)
        offsets.append(passage.offsets)
        indices.append(np.full(len(passage.ids), number))
        sentences.append(sentence + len(context_spans))
        for span in spans:
            context_spans.append(ContextSpan(number, span.start, span.end))
        replaced += replace_surrogates(text)[1]
    response_sentence, response_spans = _assign_sentences(
        example.response, response, example.response_sentences, "response"
    )
    return TokenizedExample(
        question=question,
        context=Segment(np.concatenate(ids), np.concatenate(offsets)),
        context_index=np.concatenate(indices),
        context_sentence=np.concatenate(sentences),
        context_sentence_spans=tuple(context_spans),
        response=response,
        response_sentence=response_sentence,
        response_sentence_spans=response_spans,
        replaced_characters=replaced,
    )


def _assign_sentences(
    text: str, segment: Segment, given: tuple[Span, ...] | None, name: str
) -> tuple[IntArray, tuple[Span, ...]]:
    """Return the sentence number of every token, and the sentences that contain a token."""
    reached = 0
    for span in given or ():
        if span.start < reached or span.end > len(text):
            raise ExampleError(
                f"the sentences given for the {name} ({len(text)} characters) must be in order, "
                "must not overlap and must lie in the text",
                code="bad_sentences",
            )
        reached = span.end
    if not len(segment.ids):
        return _NONE, ()
    # Some tokenizers have tokens where the splitter sees only white space; these are one sentence.
    spans = given or split_sentences(text) or (Span(0, len(text)),)
    starts = np.fromiter(map(attrgetter("start"), spans), dtype=np.int64, count=len(spans))
    # A token may begin with the white space before its word, so its last character decides.
    last = np.maximum(segment.offsets[:, 1] - 1, segment.offsets[:, 0])
    number = np.maximum(np.searchsorted(starts, last, side="right") - 1, 0)
    kept = np.bincount(number, minlength=len(spans)) > 0
    renumbered = np.cumsum(kept) - 1
    return renumbered[number], tuple(itertools.compress(spans, kept))
