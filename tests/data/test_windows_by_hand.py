"""Windows written out by hand; `test_windows` has the laws that hold for any."""

from __future__ import annotations

import numpy as np
import pytest

from tests.data.examples import make_tokenized
from tests.data.test_windows import (
    CONTEXT,
    QUESTION,
    RESPONSE,
    SPECIAL,
    read_of,
    slices_of,
    text_ids,
)
from trivet.data.collating import collate
from trivet.data.tokenization import IntArray
from trivet.data.windows import WindowSettings, lay_out
from trivet.evaluation.packing import take_windows


def test_one_window_written_out() -> None:
    read = read_of(question=2, passages=[[2, 1], [], [1]], response=[1, 2])
    layout = lay_out(read, WindowSettings(32), SPECIAL)
    c, q, r = CONTEXT, QUESTION, RESPONSE
    (row,) = layout.rows
    assert row.tolist() == [1, c, c + 1, c + 2, 2, c + 3, 2, q, q + 1, 2, r, r + 1, r + 2, 2]
    assert layout.context_column.tolist() == [1, 2, 3, 5]
    assert layout.response_column.tolist() == [[10], [11], [12]]
    assert layout.context_weight.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 3, 1 / 3])
    windows = collate([layout], SPECIAL.pad)
    assert windows.segment_ids[0].tolist() == [0] * 10 + [1] * 4
    assert windows.sentence_pool[0].tolist() == [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    assert (layout.cut_question_tokens, layout.response_chunks, layout.sentences) == (0, 1, 2)


def test_an_overlapped_token_counts_where_it_stands_nearer_the_middle() -> None:
    # The smallest room, 32 - 8 - 16 - 4 = 4, allows an overlap of 1; here the room is 20.
    layout = lay_out(read_of(4, [[40]], [4]), WindowSettings(32, stride_overlap=1), SPECIAL)
    assert slices_of(layout) == [(0, 20), (19, 39), (38, 40)]
    # 19 is 9.5 from both middles and stays with the first; 38 is 9.5 from one, 0.5 from the other.
    assert layout.context_row[[18, 19, 20, 37, 38, 39]].tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("tokens", "rows", "first"), [(24, 1, 0), (25, 2, 25)])
def test_contexts_are_sorted_if_they_need_a_second_slice(
    tokens: int, rows: int, first: int
) -> None:
    # The room of 26 holds 24 tokens, a separator and the one token that is asked and answered.
    contexts = [[list(range(CONTEXT, CONTEXT + tokens))], [[QUESTION]]]
    read = make_tokenized([QUESTION], contexts, [[QUESTION]])
    layout = lay_out(read, WindowSettings(32, sort_contexts=True), SPECIAL)
    assert (len(layout.rows), int(layout.row_context[0][0])) == (rows, first)


def test_a_long_response_is_read_in_chunks_that_each_meet_every_slice() -> None:
    # Chunks of at most 16: sentences of 9 and 5 share one, 15 and 1 fill the next, 7 remain.
    layout = lay_out(read_of(4, [[8], [8]], [9, 5, 15, 1, 7]), WindowSettings(32), SPECIAL)
    assert layout.response_chunks == 3
    assert slices_of(layout) == [(0, 8), (8, 16)]
    chunks = [row[row >= RESPONSE] - RESPONSE for row in layout.rows]
    assert [(int(chunk[0]), len(chunk)) for chunk in chunks] == [(0, 14), (14, 16), (30, 7)] * 2
    rows = layout.response_row[[0, 13, 14, 29, 30]].tolist()
    assert rows == [[0, 3], [0, 3], [1, 4], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("question", "passages", "response"),
    [(0, [], []), (3, [], [4]), (0, [[3]], [4]), (3, [[3]], []), (3, [[], []], [2])],
    ids=["nothing", "no-context", "no-question", "no-response", "empty-contexts"],
)
def test_what_is_missing_leaves_one_row_and_no_empty_dimension(
    question: int, passages: list[list[int]], response: list[int]
) -> None:
    layout = lay_out(read_of(question, passages, response), WindowSettings(32), SPECIAL)
    windows = collate([layout], SPECIAL.pad)
    assert len(layout.rows) == 1
    assert all(size >= 1 for array in windows for size in array.shape)
    assert (windows.response_at >= 0).sum() == sum(response)
    assert (windows.context_at >= 0).sum() == sum(map(sum, passages))
    assert windows.context_weight.sum() == pytest.approx(1.0 if sum(map(sum, passages)) else 0.0)
    part, numbers = take_windows(layout, [0])
    for taken, whole in zip(collate([part], SPECIAL.pad), windows, strict=True):
        np.testing.assert_array_equal(taken, whole)
    assert len(numbers) == len(layout.context_row)


def test_a_passage_of_a_megabyte_is_cut_whole() -> None:
    tokens = 250_000
    read = read_of(20, [[25] * (tokens // 25)], [30])
    layout = lay_out(read, WindowSettings(512, stride_overlap=16), SPECIAL)
    assert (layout.context_row >= 0).all()
    shown: IntArray = np.unique(np.concatenate(layout.rows))
    assert np.isin(read.context.ids, shown).all()


def test_evidence_windows_count_their_runs_of_text_as_passages() -> None:
    # The third and the first sentence share words with the response; each is a passage of its own.
    passages = [[range(30), range(100, 130), range(200, 230)]]
    read = make_tokenized([7], passages, [[*range(200, 210), *range(5)]])
    window = WindowSettings(104, evidence_sentences=2, layout="lettucedetect")
    layout = lay_out(read, window, SPECIAL)
    assert layout.row_is_evidence.tolist() == [False] * (len(layout.rows) - 1) + [True]
    row, shown = layout.rows[-1], layout.row_context[-1]
    assert len(row) <= window.size
    assert row[layout.row_columns[-1]].tolist() == read.context.ids[shown].tolist()
    assert np.diff(shown).max() > 1
    colon, d1, d2 = text_ids(":12").tolist()
    assert row[:7].tolist() == [1, colon, 7, d2, colon, d1, colon]
    assert [d2, colon] == row[layout.row_columns[-1][30] - 2 : layout.row_columns[-1][30]].tolist()
