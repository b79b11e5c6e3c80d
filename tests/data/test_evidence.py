"""Evidence windows: the laws of their layout for any example."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.data.examples import make_tokenized
from trivet.data.lexical_overlap import count_overlaps
from trivet.data.tokenization import SpecialTokens, TokenizedExample
from trivet.data.windows import FRAME, Layout, WindowSettings, lay_out

SPECIAL = SpecialTokens(cls=1, sep=2, pad=0)
CONTEXT = 10_000

# Every context token has an id of its own; a response repeats them or has other words.
response_words = st.integers(CONTEXT, CONTEXT + 150) | st.integers(50_000, 50_009)


@st.composite
def reads(draw: st.DrawFn) -> TokenizedExample:
    passages, words = [], iter(range(CONTEXT, 99_000))
    for lengths in draw(st.lists(st.lists(st.integers(1, 20), max_size=6), max_size=5)):
        passages.append([[next(words) for _ in range(length)] for length in lengths])
    question = draw(st.lists(response_words, max_size=20))
    sentence = st.lists(response_words, min_size=1, max_size=20)
    return make_tokenized(question, passages, draw(st.lists(sentence, max_size=5)))


@st.composite
def settings(draw: st.DrawFn) -> WindowSettings:
    size = draw(st.integers(32, 96))
    least_room = size - size // 4 - size // 2 - FRAME
    return WindowSettings(
        size,
        draw(st.integers(0, least_room // 4)),
        evidence_sentences=draw(st.integers(1, 4)),
        sort_contexts=draw(st.booleans()),
    )


def ordinary(window: WindowSettings) -> WindowSettings:
    return replace(window, evidence_sentences=0)


def evidence_rows(layout: Layout) -> list[int]:
    return np.flatnonzero(layout.row_is_evidence).tolist()


@given(reads(), settings())
def test_the_ordinary_windows_and_who_owns_what_stay(
    read: TokenizedExample, window: WindowSettings
) -> None:
    layout, plain = lay_out(read, window, SPECIAL), lay_out(read, ordinary(window), SPECIAL)
    assert not plain.row_is_evidence.any()
    count = len(plain.rows)
    assert layout.row_is_evidence.tolist() == [False] * count + [True] * (len(layout.rows) - count)
    for ours, theirs in zip(layout.rows, plain.rows, strict=False):
        np.testing.assert_array_equal(ours, theirs)
    shown = plain.response_row.shape[1]
    np.testing.assert_array_equal(layout.response_row[:, :shown], plain.response_row)
    np.testing.assert_array_equal(layout.response_column[:, :shown], plain.response_column)
    for name in ("context_row", "context_column", "context_weight", "sentence_features"):
        np.testing.assert_array_equal(getattr(layout, name), getattr(plain, name))


@given(reads(), settings())
def test_an_evidence_window_shows_context_in_order_question_and_chunk(
    read: TokenizedExample, window: WindowSettings
) -> None:
    layout = lay_out(read, window, SPECIAL)
    question = read.question.ids[: window.size // 4].tolist()
    for row in evidence_rows(layout):
        ids, segment, shown = layout.rows[row], layout.segments[row], layout.row_context[row]
        assert len(ids) <= window.size
        wanted = [SPECIAL.cls, int(read.context.ids[shown[0]])]
        for before, token in pairwise(shown):
            left_out = token != before + 1
            assert token > before
            if left_out or read.context_index[token] != read.context_index[before]:
                wanted.append(SPECIAL.sep)
            wanted.append(int(read.context.ids[token]))
        wanted += [SPECIAL.sep, *question, SPECIAL.sep]
        chunk = np.flatnonzero(layout.response_row[:, -1] == row)
        np.testing.assert_array_equal(np.diff(chunk), 1)
        np.testing.assert_array_equal(ids, [*wanted, *read.response.ids[chunk], SPECIAL.sep])
        np.testing.assert_array_equal(segment, [0] * len(wanted) + [1] * (len(chunk) + 1))


@given(reads(), settings())
def test_every_response_token_has_one_copy_in_an_evidence_window_or_none_is_needed(
    read: TokenizedExample, window: WindowSettings
) -> None:
    layout, plain = lay_out(read, window, SPECIAL), lay_out(read, ordinary(window), SPECIAL)
    slices = plain.response_row.shape[1]
    rows = evidence_rows(layout)
    # Nothing to gather: no text, or the only slice shows all.
    assert bool(rows) == (slices > 1 and len(read.response) > 0)
    if not rows:
        assert layout.response_row.shape[1] == slices
        return
    assert layout.response_row.shape[1] == slices + 1 > 2
    np.testing.assert_array_equal(layout.ordinary_windows(), slices)
    for r, (row, column) in enumerate(
        zip(layout.response_row[:, -1], layout.response_column[:, -1], strict=True)
    ):
        assert row in rows
        assert layout.rows[row][column] == read.response.ids[r]


@given(reads(), settings())
def test_the_best_sources_are_shown_as_many_as_fit(
    read: TokenizedExample, window: WindowSettings
) -> None:
    layout = lay_out(read, window, SPECIAL)
    sources = count_overlaps(read, window.evidence_sentences).sources
    lengths = np.bincount(read.context_sentence)
    for row in evidence_rows(layout):
        chunk = np.flatnonzero(layout.response_row[:, -1] == row)
        room = window.size - min(len(read.question), window.size // 4) - len(chunk) - FRAME
        named = set(sources[np.unique(read.response_sentence[chunk])].flat)
        shown = set(read.context_sentence[layout.row_context[row]].tolist())
        assert shown <= named
        if len(layout.row_context[row]) < sum(lengths[list(shown)]):
            # Not even one sentence fits: the best is truncated.
            assert len(shown) == 1 and len(layout.row_context[row]) == room
            continue
        free = room + 1 - sum(lengths[sentence] + 1 for sentence in shown)
        assert free >= 0
        assert all(lengths[sentence] + 1 > free for sentence in named - shown)


def test_the_question_decides_between_equal_sources() -> None:
    c = CONTEXT
    read = make_tokenized([c + 3], [[[c, c + 1], [c + 2, c + 3]]], [[7]])
    assert count_overlaps(read, 1).sources.tolist() == [[1]]
    assert count_overlaps(read, 5).sources.tolist() == [[1, 0]]
    assert count_overlaps(read).sources.shape == (1, 0)
