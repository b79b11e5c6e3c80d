"""Tokenized examples: every token has its context and its sentence."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.data.tokenization import SegmentTokenizer, TokenizedExample, tokenize_examples
from trivet.errors import ExampleError
from trivet.records import ContextSpan, RagExample, Span

SENTENCES = st.lists(
    st.sampled_from(["The mill was old.", "Was it red?", "No.", "\n- 17 lamps\n", "it had", "🌉!"]),
    max_size=5,
).map(" ".join)
EXAMPLES = st.builds(RagExample, SENTENCES, st.lists(SENTENCES, max_size=4).map(tuple), SENTENCES)


def read_one(example: RagExample, tokenizer: SegmentTokenizer) -> TokenizedExample:
    (read,) = tokenize_examples([example], tokenizer)
    return read


@given(example=EXAMPLES)
def test_every_token_is_in_its_sentence(tokenizer: SegmentTokenizer, example: RagExample) -> None:
    read = read_one(example, tokenizer)
    spans = read.response_sentence_spans
    assert sorted(set(read.response_sentence.tolist())) == list(range(len(spans)))
    for number, (start, end) in zip(read.response_sentence, read.response.offsets, strict=True):
        # White space between sentences, where it has a token of its own, belongs to none of them.
        if not example.response[start:end].isspace():
            assert spans[number].start < end <= spans[number].end
    places = read.context_sentence_spans
    assert sorted(set(read.context_sentence.tolist())) == list(range(len(places)))
    owners = zip(read.context_sentence, read.context_index, read.context.offsets, strict=True)
    for number, owner, (start, end) in owners:
        assert places[number].context == owner
        if not example.contexts[owner][start:end].isspace():
            assert places[number].start < end <= places[number].end
    assert (np.diff(read.response_sentence) >= 0).all()
    assert (np.diff(read.context_sentence) >= 0).all()
    assert (np.diff(read.context_index) >= 0).all()


@given(examples=st.lists(EXAMPLES, min_size=1, max_size=4))
def test_batches_equal_singles(tokenizer: SegmentTokenizer, examples: list[RagExample]) -> None:
    for example, read in zip(examples, tokenize_examples(examples, tokenizer), strict=True):
        alone = read_one(example, tokenizer)
        np.testing.assert_equal(dataclasses.asdict(read), dataclasses.asdict(alone))


@pytest.mark.parametrize(
    "sentences",
    [(Span(0, 5), Span(4, 9)), (Span(0, 16),), (Span(5, 9), Span(0, 4))],
    ids=["overlapping", "outside", "out-of-order"],
)
def test_misfit_sentences_refused(tokenizer: SegmentTokenizer, sentences: tuple[Span, ...]) -> None:
    example = RagExample("Who?", ("A mill.",), "mill lamp. boat", response_sentences=sentences)
    with pytest.raises(ExampleError, match=r"given for response \(15 characters\)") as refused:
        read_one(example, tokenizer)
    assert refused.value.code == "bad_sentences"


def test_sentences_for_another_number_of_contexts_are_refused(tokenizer: SegmentTokenizer) -> None:
    example = RagExample("Who?", ("A mill.", "A lamp."), "x", context_sentences=((Span(0, 7),),))
    with pytest.raises(ExampleError, match="given for 1 contexts, but there are 2"):
        read_one(example, tokenizer)


def test_tokens_in_white_space_alone_do_not_fall_into_the_next_context(unigram_file: Path) -> None:
    # White space to Python, a character without a piece to this tokenizer.
    tokenizer = SegmentTokenizer.from_file(unigram_file)
    read = read_one(RagExample("Who?", ("\x1c\x1d", "A mill."), "\x1c"), tokenizer)
    assert read.context_sentence_spans == (ContextSpan(0, 0, 2), ContextSpan(1, 0, 7))
    assert read.context_sentence.tolist() == [0, 0, 1, 1, 1]
    assert read.response_sentence_spans == (Span(0, 1),)


def test_replaced_characters_are_counted_over_all_texts(tokenizer: SegmentTokenizer) -> None:
    example = RagExample("Wh\ud800?", ("A \udfffmill.", "lamp"), "\ud800\ud800 boat.")
    assert read_one(example, tokenizer).replaced_characters == 4
    assert read_one(RagExample("Who?", ("A mill.",), "\ufffd"), tokenizer).replaced_characters == 0
