"""The choice of a window length for a model with several."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.data.examples import make_tokenized
from trivet.data.tokenization import SpecialTokens, TokenizedExample
from trivet.data.windows import SLACK, WindowSettings, lay_out
from trivet.errors import WindowError
from trivet.evaluation.packing import take_windows

SPECIAL = SpecialTokens(cls=1, sep=2, pad=0)
# A large DeBERTa: twice the width, the inner width, 512 rows of position tables.
LARGE = 2 * 1024 + 4096 + 512
EITHER = WindowSettings(1024, sizes=(512, 1024), break_even=LARGE)


def read_of(question: int, context: int, response: int, sentence: int = 25) -> TokenizedExample:
    """Return an example of so many tokens, in sentences of ``sentence`` tokens."""

    def sentences(tokens: int) -> list[range]:
        return [range(at, min(at + sentence, tokens)) for at in range(0, tokens, sentence)]

    return make_tokenized(range(question), [sentences(context)], sentences(response))


def only(size: int) -> WindowSettings:
    return WindowSettings(size, sizes=(size,), break_even=LARGE)


# Reference: of a context of so many tokens, question and response together, windows of 512 and 1024
# that they make, and how many times more 512 costs.
@pytest.mark.parametrize(
    ("context", "both", "windows", "ratio", "chosen"),
    [
        (16384, 100, (41, 18), 120 / 114, 512),
        (16384, 300, (79, 23), 236 / 146, 1024),
        (4096, 100, (11, 5), 30 / 28, 512),
        (4096, 300, (20, 6), 59 / 37, 1024),
    ],
)
def test_long_questions_and_responses_ask_for_long_windows(
    context: int, both: int, windows: tuple[int, int], ratio: float, chosen: int
) -> None:
    read = read_of(both // 3, context, both - both // 3)
    short, long = only(512).plan(read), only(1024).plan(read)
    assert (short.windows, long.windows) == windows
    assert WindowSettings(512).plan(read).windows == short.windows
    assert short.work / long.work == pytest.approx(ratio, rel=0.06)
    assert EITHER.plan(read).size == chosen
    layout = lay_out(read, EITHER, SPECIAL)
    assert layout.window_size == chosen
    assert take_windows(layout, [0])[0].window_size == chosen


def test_what_is_planned_is_what_is_laid_out() -> None:
    lengths = itertools.product((0, 30, 127), (0, 900, 5000), (0, 40, 250, 700))
    for question, context, response in lengths:
        read = read_of(question, context, response)
        worked = {}
        for size in (512, 1024):
            rows = [len(row) for row in lay_out(read, only(size), SPECIAL).rows]
            assert max(rows) <= size
            worked[size] = sum(row * (row / LARGE + 1) for row in rows)
            plan = only(size).plan(read)
            # Slices end with sentences: a few more windows than planned, and a little more work.
            assert plan.windows <= len(rows) <= 1.2 * plan.windows + 1
            assert plan.work == pytest.approx(worked[size], rel=0.2), (question, context, response)
        layout = lay_out(read, EITHER, SPECIAL)
        chosen = worked[layout.window_size]
        assert chosen <= 1.05 * SLACK * min(worked.values()), (question, context, response)
        alone = lay_out(read, only(layout.window_size), SPECIAL)
        for row, own in zip(layout.rows, alone.rows, strict=True):
            np.testing.assert_array_equal(row, own)


@pytest.mark.parametrize("context", [0, 1, 407, 408, 409, 785, 786, 787, 4000])
def test_what_is_repeated_is_planned_too(context: int) -> None:
    # Sentences of one token: a slice ends where it must, with 408 tokens, 30 of them seen before.
    settings, read = WindowSettings(512, stride_overlap=30), read_of(50, context, 50, sentence=1)
    rows = [len(row) for row in lay_out(read, settings, SPECIAL).rows]
    plan = settings.plan(read)
    assert plan.windows == len(rows)
    assert plan.work == sum(row * (row + 1) for row in rows)


def test_no_question_is_cut_to_save_work() -> None:
    assert EITHER.plan(read_of(20, 400, 80)).size == EITHER.plan(read_of(0, 0, 0)).size == 512
    plan = EITHER.plan(read_of(200, 100, 20))
    assert (plan.size, plan.windows, plan.cut) == (1024, 1, 0)
    assert lay_out(read_of(200, 100, 20), EITHER, SPECIAL).cut_question_tokens == 0
    assert EITHER.plan(read_of(300, 100, 20)).cut == 300 - 1024 // 4


@pytest.mark.parametrize(
    ("sizes", "break_even", "message"),
    [
        ((1024, 512), 100, r"window\.sizes \(1024, 512\) must rise, .* window\.size \(1024\)"),
        ((256, 512), 100, r"window\.sizes \(256, 512\) must rise, and the last must be"),
        ((512, 1024), None, r"window\.break_even \(None\) must be at least 1"),
        ((), 0, r"window\.break_even \(0\) must be at least 1"),
        ((16, 1024), 100, r"window\.size \(16 tokens\) must be at least 32"),
    ],
)
def test_bad_sizes_refused(sizes: tuple[int, ...], break_even: int | None, message: str) -> None:
    with pytest.raises(WindowError, match=message):
        WindowSettings(1024, sizes=sizes, break_even=break_even)


def test_neighbours_may_share_what_the_shortest_window_has_room_for() -> None:
    WindowSettings(1024, 31, (512, 1024), LARGE)
    with pytest.raises(WindowError, match=r"stride_overlap \(32 tokens\) .* of 512 positions"):
        WindowSettings(1024, 32, (512, 1024), LARGE)
