"""Laws of cutting for any lengths and layouts; `test_windows_by_hand` has a few written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import accumulate, pairwise
from random import Random
from typing import get_args

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.data.examples import make_tokenized
from trivet.data.collating import collate
from trivet.data.lexical_overlap import rank_contexts
from trivet.data.tokenization import FloatArray, IntArray, Segment, SpecialTokens, TokenizedExample
from trivet.data.window_layout import Frame, WindowLayout
from trivet.data.windows import FRAME, Layout, Windows, WindowSettings, lay_out
from trivet.evaluation.packing import take_windows
from trivet.model.aggregate import gather_tokens, supported_anywhere


def text_ids(text: str) -> IntArray:
    """Return ids of a fixed text: one for each digit and mark, so that numbers differ in length."""
    marks = [100 + ord(letter) for letter in text if not (letter.isalpha() or letter.isspace())]
    return np.asarray(marks, dtype=np.int64)


SPECIAL = SpecialTokens(cls=1, sep=2, pad=0, text_ids=text_ids)
# Every token has an id of its own, so that an id says which token stands somewhere.
QUESTION, CONTEXT, RESPONSE = 1_000, 10_000, 20_000


def read_of(
    question: int, passages: Sequence[Sequence[int]], response: Sequence[int]
) -> TokenizedExample:
    """Return an example of so many question tokens and of sentences with so many tokens each."""

    def sentences(first: int, lengths: Sequence[int]) -> list[range]:
        ends = list(accumulate(lengths, initial=first))
        return [range(start, end) for start, end in pairwise(ends)]

    whole = iter(sentences(CONTEXT, [length for passage in passages for length in passage]))
    contexts = [[next(whole) for _ in passage] for passage in passages]
    asked = range(QUESTION, QUESTION + question)
    return make_tokenized(asked, contexts, sentences(RESPONSE, response))


@st.composite
def reads(draw: st.DrawFn) -> TokenizedExample:
    lengths = st.integers(1, 25)
    return read_of(
        draw(st.integers(0, 40)),
        draw(st.lists(st.lists(lengths, max_size=6), max_size=6)),
        draw(st.lists(lengths, max_size=6)),
    )


def asking(read: TokenizedExample, random: Random) -> TokenizedExample:
    """Return an example whose question consists of random context tokens."""
    tokens = random.sample(range(len(read.context)), len(read.context) // 3)
    shared = Segment(read.context.ids[tokens], read.context.offsets[tokens])
    return replace(read, question=shared)


@st.composite
def settings(draw: st.DrawFn) -> WindowSettings:
    layout = draw(st.sampled_from(get_args(WindowLayout)))
    fixed = Frame(layout, True, SPECIAL, passages=99).positions
    least = 32 + 4 * (fixed - FRAME)
    size = draw(st.integers(least, least + 64))
    least_room = size - size // 4 - size // 2 - fixed
    return WindowSettings(size, draw(st.integers(0, least_room // 4)), layout=layout)


def ends_of(shown: IntArray) -> tuple[int, int]:
    """Return the first and one-past-last token of a slice."""
    np.testing.assert_array_equal(np.diff(shown), 1)
    return (int(shown[0]), int(shown[-1]) + 1) if len(shown) else (0, 0)


def slices_of(layout: Layout) -> list[tuple[int, int]]:
    return list(dict.fromkeys(map(ends_of, layout.row_context)))


def places_of(read: TokenizedExample, gap: int) -> list[int]:
    """Return where each context token would stand in one endless row."""
    position, places = -1, []
    for number, owner in enumerate(read.context_index):
        between = number > 0 and owner != read.context_index[number - 1]
        position += 1 + gap if between else 1
        places.append(position)
    return places


def room_of(read: TokenizedExample, layout: Layout, window: WindowSettings) -> int:
    question = len(read.question) - layout.cut_question_tokens
    longest = max(int((row >= RESPONSE).sum()) for row in layout.rows)
    return window.size - question - longest - window.frame(read, SPECIAL).positions


@given(reads(), settings())
def test_a_row_is_the_slice_in_its_layout(read: TokenizedExample, window: WindowSettings) -> None:
    layout = lay_out(read, window, SPECIAL)
    assert 1 <= max(map(len, layout.rows)) <= window.size
    question = read.question.ids[: window.size // 4].tolist()
    windows = zip(layout.rows, layout.segments, layout.row_context, strict=True)
    for row, segment, shown in windows:
        before = written_out(read, question, window.layout, *ends_of(shown))
        chunk = row[row >= RESPONSE].tolist()
        np.testing.assert_array_equal(segment, np.arange(len(row)) >= len(before))
        assert row.tolist() == [*before, *chunk, 2]
        assert chunk == list(range(chunk[0], chunk[0] + len(chunk))) if chunk else True
        assert not chunk or chunk[-1] < RESPONSE + len(read.response)
    assert layout.cut_question_tokens == len(read.question) - len(question)


def written_out(
    read: TokenizedExample, question: list[int], layout: WindowLayout, start: int, stop: int
) -> list[int]:
    """Return the ids of a row before its response; of the prompt only digits and marks count."""

    def ids(text: str) -> list[int]:
        return list(text_ids(text).tolist())

    passages: dict[int, list[int]] = {}
    for token in range(start, stop):
        passages.setdefault(int(read.context_index[token]), []).append(int(read.context.ids[token]))
    if layout == "plain":
        slice_ = [number for passage in passages.values() for number in (2, *passage)][1:]
        return [1, *slice_, 2, *question, 2]
    slice_ = []
    for number, passage in enumerate(passages.values(), start=1):
        slice_ += [*ids(f"{number}:"), *passage]
    if not question:
        return [1, *ids(":"), *slice_, *ids(":"), 2]
    return [1, *ids(":"), *question, *ids(f"{len(passages)}:"), *slice_, *ids(',:".":'), 2]


@given(reads(), settings())
def test_context_tokens_are_owned_in_order(read: TokenizedExample, window: WindowSettings) -> None:
    layout = lay_out(read, window, SPECIAL)
    owned = list(zip(layout.context_row.tolist(), layout.context_column.tolist(), strict=True))
    assert owned == sorted(set(owned))
    assert [layout.rows[row][column] for row, column in owned] == read.context.ids.tolist()
    if len(read.context):
        totals = np.bincount(read.context_sentence, weights=layout.context_weight)
        np.testing.assert_allclose(totals, 1 / len(totals), rtol=1e-5)


@given(reads(), settings())
def test_each_slice_shows_the_response_once(read: TokenizedExample, window: WindowSettings) -> None:
    layout = lay_out(read, window, SPECIAL)
    slices = slices_of(layout)
    assert layout.response_row.shape == (len(read.response), len(slices))
    shown = [
        (int(token), ends_of(context))
        for row, context in zip(layout.rows, layout.row_context, strict=True)
        for token in row[row >= RESPONSE]
    ]
    assert sorted(shown) == sorted((int(i), span) for i in read.response.ids for span in slices)
    for r, token in enumerate(read.response.ids):
        for k in range(len(slices)):
            row = layout.rows[layout.response_row[r, k]]
            assert row[layout.response_column[r, k]] == token


@given(reads(), settings())
def test_slices_overlap_as_asked(read: TokenizedExample, window: WindowSettings) -> None:
    slices = slices_of(lay_out(read, window, SPECIAL))
    assert slices[0][0] == 0
    assert slices[-1][1] == len(read.context)
    for (_, stop), (start, next_stop) in pairwise(slices):
        assert start == stop - window.stride_overlap
        assert next_stop > stop


@given(reads(), settings())
def test_cuts_prefer_late_sentence_ends(read: TokenizedExample, window: WindowSettings) -> None:
    layout = lay_out(read, window, SPECIAL)
    gap = window.frame(read, SPECIAL).gap
    room, places = room_of(read, layout, window), places_of(read, gap)
    sentence = read.context_sentence
    for start, stop in slices_of(layout)[:-1]:
        filled = {end: places[end] - places[start] for end in range(start + 1, stop + 1)}
        ends = [end for end in filled if sentence[end] != sentence[end - 1]]
        assert filled[stop] >= room - room // 4, "no cut before the last quarter"
        if stop not in ends:
            assert filled[stop] >= room, "a cut within a sentence must fill the room"
            assert all(filled[end] < room - room // 4 for end in ends)
        later = range(stop + 1, len(places))
        fitting = [end for end in later if places[end - 1] < places[start] + room]
        assert not any(sentence[end] != sentence[end - 1] for end in fitting)


@given(st.lists(reads(), min_size=1, max_size=4), settings())
def test_a_batch_holds_every_layout(
    several: list[TokenizedExample], window: WindowSettings
) -> None:
    layouts = [lay_out(read, window, SPECIAL) for read in several]
    batch = collate(layouts, SPECIAL.pad)
    assert [array.dtype for array in batch] == [np.int64] * 5 + [np.float32] * 5
    rows = [row for layout in layouts for row in layout.rows]
    segments = [segment for layout in layouts for segment in layout.segments]
    ones = [np.ones_like(row) for row in rows]
    width = max(map(len, rows))
    for array, wanted in zip(batch, (rows, ones, segments), strict=False):
        padded = [np.pad(row, (0, width - len(row))) for row in wanted]
        np.testing.assert_array_equal(array, padded, strict=True)
    first = 0
    for b, (read, layout) in enumerate(zip(several, layouts, strict=True)):
        (tokens, copies), held = layout.response_row.shape, len(read.context)
        cells = (slice(tokens), slice(copies))
        row, column = np.divmod(batch.response_at[b][cells], width)
        np.testing.assert_array_equal(row, first + layout.response_row)
        np.testing.assert_array_equal(column, layout.response_column)
        assert (batch.response_at[b] >= 0).sum() == tokens * copies
        row, column = np.divmod(batch.context_at[b, :held], width)
        np.testing.assert_array_equal(row, first + layout.context_row)
        np.testing.assert_array_equal(column, layout.context_column)
        assert (batch.context_at[b, held:] == -1).all()
        for name in ("context_weight", "question_overlap", "response_overlap", "sentence_features"):
            values, own_values = getattr(batch, name)[b], getattr(layout, name)
            np.testing.assert_array_equal(values[: len(own_values)], own_values)
            assert not values[len(own_values) :].any()
        for s, pool in enumerate(batch.sentence_pool[b]):
            inside = read.response_sentence == s
            np.testing.assert_allclose(pool[:tokens], inside / max(1, inside.sum()), rtol=1e-6)
            assert not pool[tokens:].any()
        first += len(layout.rows)


def formula(windows: Windows) -> FloatArray:
    """Return a number for each position, from the real tokens of its row alone. *Shape:* [M]."""
    ids = windows.input_ids * windows.attention_mask
    key = (ids * ids % 9973).sum(axis=1, keepdims=True)
    values: FloatArray = np.mod(np.sin(ids * 12.9 + key) * 437.5, 1.0).astype(np.float32)
    return values.reshape(-1)


@given(reads(), settings(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_pieces_taken_from_a_layout_join_to_the_whole(
    read: TokenizedExample, window: WindowSettings, random: Random, pieces: int
) -> None:
    sort = replace(window, sort_contexts=random.random() < 0.5)
    layout = lay_out(asking(read, random), sort, SPECIAL)
    whole = collate([layout], SPECIAL.pad)
    support = supported_anywhere(formula(whole), whole.response_at)[0]
    context = gather_tokens(formula(whole), whole.context_at)[0]

    order = list(range(len(layout.rows)))
    random.shuffle(order)
    groups = [order[piece::pieces] for piece in range(pieces) if order[piece::pieces]]
    joined = np.zeros_like(context)
    copies, times_held = [], np.zeros(len(read.context), dtype=np.int64)
    for rows in groups:
        part, numbers = take_windows(layout, rows)
        windows = collate([part], SPECIAL.pad)
        assert len(windows.input_ids) == len(rows)
        copies.append(supported_anywhere(formula(windows), windows.response_at)[0])
        joined[numbers] = gather_tokens(formula(windows), windows.context_at)[0, : len(numbers)]
        times_held[numbers] += 1
        for name in ("context_weight", "question_overlap", "response_overlap"):
            np.testing.assert_array_equal(getattr(part, name), getattr(layout, name)[numbers])
    assert (times_held == 1).all()
    np.testing.assert_array_equal(joined, context)
    length = len(support)
    at = np.arange(len(groups) * length).reshape(1, len(groups), length).swapaxes(1, 2)
    np.testing.assert_array_equal(supported_anywhere(np.concatenate(copies), at)[0], support)


@given(reads(), settings(), st.randoms(use_true_random=False))
def test_sorted_contexts_are_cut_like_contexts_given_in_that_order(
    read: TokenizedExample, window: WindowSettings, random: Random
) -> None:
    read = asking(read, random)
    sort = replace(window, sort_contexts=True)
    layout, plain = lay_out(read, sort, SPECIAL), lay_out(read, window, SPECIAL)
    if len(slices_of(plain)) == 1:
        first, second = (asdict(laid_out) | {"context_values": 0} for laid_out in (layout, plain))
        np.testing.assert_equal(first, second)
        return
    ranks = rank_contexts(read)
    order = np.argsort(ranks, kind="stable")
    moved = replace(
        read,
        context=Segment(read.context.ids[order], read.context.offsets[order]),
        context_index=ranks[order],
        context_sentence=read.context_sentence[order],
    )
    expected = lay_out(moved, window, SPECIAL)
    for name in ("rows", "segments", "response_row", "response_column", "row_columns"):
        np.testing.assert_equal(getattr(layout, name), getattr(expected, name), err_msg=name)
    for shown, wanted in zip(layout.row_context, expected.row_context, strict=True):
        np.testing.assert_array_equal(shown, order[wanted])
    for name in ("context_row", "context_column"):
        np.testing.assert_array_equal(getattr(layout, name)[order], getattr(expected, name))


@given(settings(), st.permutations(range(5)))
def test_the_order_of_contexts_that_are_sorted_changes_no_window(
    window: WindowSettings, order: list[int]
) -> None:
    # Each passage shares another number of words with the response.
    passages = [[range(100 * n, 100 * n + 30), range(100 * n, 100 * n + 9)] for n in range(5)]
    answer = [range(100 * n, 100 * n + 3 * n) for n in range(1, 5)]
    sort = replace(window, sort_contexts=True)
    given_order, shuffled = (
        lay_out(make_tokenized([7], contexts, answer), sort, SPECIAL)
        for contexts in (passages, [passages[n] for n in order])
    )
    assert len(given_order.rows) > 1
    np.testing.assert_equal(shuffled.rows, given_order.rows)
