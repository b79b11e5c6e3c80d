"""The windows that are planned for an example."""

from __future__ import annotations

import itertools

import pytest

from tests.data.examples import make_tokenized
from trivet.data.tokenization import SpecialTokens, TokenizedExample
from trivet.data.windows import FRAME, WindowSettings, lay_out
from trivet.errors import WindowError

SPECIAL = SpecialTokens(cls=1, sep=2, pad=0)


def read_of(question: int, context: int, response: int, sentence: int = 25) -> TokenizedExample:
    """Return an example of so many tokens, in sentences of ``sentence`` tokens."""

    def sentences(tokens: int) -> list[range]:
        return [range(at, min(at + sentence, tokens)) for at in range(0, tokens, sentence)]

    return make_tokenized(range(question), [sentences(context)], sentences(response))


def test_what_is_planned_is_what_is_laid_out() -> None:
    lengths = itertools.product((0, 30, 127, 300), (0, 900, 5000), (0, 40, 250, 700))
    for question, context, response in lengths:
        read, settings = read_of(question, context, response), WindowSettings(512)
        plan, layout = settings.plan(read, FRAME), lay_out(read, settings, SPECIAL)
        assert max(map(len, layout.rows)) <= 512
        # Slices end with sentences: a few more windows than planned.
        assert plan.windows <= len(layout.rows) <= 1.2 * plan.windows + 1
        assert plan.cut == layout.cut_question_tokens == max(0, question - 128)


@pytest.mark.parametrize("context", [0, 1, 407, 408, 409, 785, 786, 787, 4000])
def test_what_is_repeated_is_planned_too(context: int) -> None:
    # Sentences of one token: a slice ends where it must, with 408 tokens, 30 of them seen before.
    settings, read = WindowSettings(512, stride_overlap=30), read_of(50, context, 50, sentence=1)
    assert settings.plan(read, FRAME).windows == len(lay_out(read, settings, SPECIAL).rows)


def test_neighbours_may_share_what_a_window_has_room_for() -> None:
    WindowSettings(512, 31)
    with pytest.raises(WindowError, match=r"stride_overlap \(32 tokens\) .* of 512 positions"):
        WindowSettings(512, 32)
    with pytest.raises(WindowError, match=r"window\.size \(16 tokens\) must be at least 32"):
        WindowSettings(16)
