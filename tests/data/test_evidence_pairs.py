"""Pairs of sentences: each is in a window that shows both, and no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.data.examples import make_tokenized
from trivet.data.evidence_pairs import window_sentences
from trivet.data.lexical_overlap import pair_overlaps
from trivet.data.tokenization import SpecialTokens, TokenizedExample
from trivet.data.windows import Layout, WindowSettings, lay_out
from trivet.labelled.labels import collate_pairs, evidence_labels
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

SPECIAL = SpecialTokens(cls=1, sep=2, pad=0)
SENTENCES = st.lists(st.lists(st.integers(10, 40), min_size=1, max_size=12), min_size=1, max_size=8)


@st.composite
def examples(draw: st.DrawFn) -> tuple[TokenizedExample, Layout]:
    passages = draw(st.lists(SENTENCES, min_size=1, max_size=4))
    tokenized = make_tokenized([7, 8], passages, draw(SENTENCES))
    settings = WindowSettings(size=32, evidence_sentences=draw(st.integers(0, 2)))
    return tokenized, lay_out(tokenized, settings, SPECIAL)


@given(examples())
def test_each_pair_is_in_an_ordinary_window_and_a_pool_averages_its_own_tokens(
    example: tuple[TokenizedExample, Layout],
) -> None:
    tokenized, layout = example
    seen = set()
    for row, ids in enumerate(layout.rows):
        shown = window_sentences(layout, row, len(ids))
        for numbers, pool, segment, sentence_of in (
            (shown.response, shown.response_pool, tokenized.response, tokenized.response_sentence),
            (shown.context, shown.context_pool, tokenized.context, tokenized.context_sentence),
        ):
            np.testing.assert_allclose(pool.sum(axis=1), 1, rtol=1e-5)
            for number, weights in zip(numbers, pool, strict=True):
                assert set(ids[weights > 0]) <= set(segment.ids[sentence_of == number])
        if not layout.row_is_evidence[row]:
            seen |= {(s, x) for s in shown.response.tolist() for x in shown.context.tolist()}
    assert len(seen) == layout.sentences * len(tokenized.context_sentence_spans)


@given(examples(), st.integers(0, 9))
def test_the_shares_of_an_example_sum_to_1_and_padding_adds_none(
    example: tuple[TokenizedExample, Layout], more: int
) -> None:
    tokenized, layout = example
    labels = np.full((layout.sentences, len(tokenized.context_sentence_spans)), -1)
    width = max(map(len, layout.rows)) + more
    assert not collate_pairs([layout], [labels], width).share.any()
    labels[0, 0] = 1
    pairs = collate_pairs([layout, layout], [labels, labels * 0], width)
    windows = len(layout.rows)
    assert pairs.example.tolist() == [0] * windows + [1] * windows
    shares = pairs.share.sum(axis=(1, 2))
    np.testing.assert_allclose([shares[:windows].sum(), shares[windows:].sum()], 1, rtol=1e-5)
    assert not pairs.share[:windows][pairs.supports[:windows] == 0].any()
    assert not pairs.share[np.tile(layout.row_is_evidence, 2)].any()


def test_labels_are_known_where_a_sentence_has_named_evidence() -> None:
    contexts, response = ("One. Two.", "Three."), "Says one. Says two. Says all."
    evidence = (
        Evidence(Span(0, 9), (ContextSpan(0, 0, 4), ContextSpan(1, 0, 6))),
        Evidence(Span(10, 19), ()),
    )
    row = LabelledExample(RagExample("", contexts, response), Labels(evidence=evidence), "a", "g")
    tokenized = make_tokenized([7], [[[11], [12]], [[13]]], [[21], [22], [23]])
    answer = replace(tokenized.response, offsets=np.array([[0, 9], [10, 19], [20, 29]]))
    context = replace(tokenized.context, offsets=np.array([[0, 4], [5, 9], [0, 6]]))
    tokenized = replace(tokenized, response=answer, context=context)
    assert evidence_labels(row, tokenized).tolist() == [[1, 0, 1], [-1, -1, -1], [-1, -1, -1]]


def test_overlap_is_the_share_of_the_words_and_rare_words_count_more() -> None:
    tokenized = make_tokenized([7], [[[11, 12], [11, 13]], [[11, 30]]], [[11, 12], [30, 31], [40]])
    first, second, third = pair_overlaps(tokenized)
    rare, common = np.log1p(3 / 1), np.log1p(3 / 3)
    np.testing.assert_allclose(first, [1, common / (rare + common), common / (rare + common)], 1e-6)
    np.testing.assert_allclose(second, [0, 0, 0.5], 1e-6)
    assert third.tolist() == [0, 0, 0]
    assert [len(shares) for shares in pair_overlaps(make_tokenized([7], [], [[1], [2]]))] == [0, 0]
