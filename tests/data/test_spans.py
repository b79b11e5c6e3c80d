"""Spans to tokens and back: whole words, whole characters, no punctuation alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.data.spans import clause_cuts, copied_spans, mark_tokens
from trivet.data.tokenization import IntArray, SegmentTokenizer
from trivet.evaluation.unsupported_spans import unsupported_spans
from trivet.records import Span


def offsets_of(*pairs: tuple[int, int]) -> IntArray:
    return np.asarray(pairs, dtype=np.int64).reshape(-1, 2)


def test_a_token_is_marked_when_it_shares_a_character() -> None:
    offsets = offsets_of((0, 3), (4, 8), (8, 9), (10, 10))
    assert mark_tokens(offsets, [Span(2, 5)]).tolist() == [True, True, False, False]
    assert mark_tokens(offsets, [Span(3, 4)]).tolist() == [False] * 4
    assert mark_tokens(offsets, [Span(8, 20), Span(0, 1)]).tolist() == [True, False, True, True]
    assert mark_tokens(offsets, [Span(6, 6)]).tolist() == [False] * 4
    assert mark_tokens(offsets, []).tolist() == [False] * 4
    assert mark_tokens(offsets_of(), [Span(0, 1)]).shape == (0,)


words = st.lists(
    st.tuples(
        st.sampled_from(["mill", "bridges", "1817", "lamplight", "xyz", "the", "été"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
)


@given(marked=words)
def test_word_spans_round_trip(tokenizer: SegmentTokenizer, marked: list[tuple[str, bool]]) -> None:
    text, bounds = "", [0]
    for word, _ in marked:
        text += word + " "
        bounds.append(len(text))
    text = text[:-1]
    # Neighbouring unsupported words are one span.
    spans: list[Span] = []
    for (start, end), (_, wrong) in zip(pairwise(bounds), marked, strict=True):
        if wrong and spans and spans[-1].end == start - 1:
            spans[-1] = Span(spans[-1].start, end - 1)
        elif wrong:
            spans.append(Span(start, end - 1))
    (segment,) = tokenizer.encode([text])
    marks = mark_tokens(segment.offsets, spans)
    probs = np.where(marks, 0.25, 0.75)
    back = unsupported_spans(text, segment.offsets, probs, 0.5)
    plain = [Span(span.start, span.end) for span in back]
    assert plain == spans
    assert all(span.probability == pytest.approx(0.75) for span in back)
    np.testing.assert_array_equal(mark_tokens(segment.offsets, plain), marks)


@given(st.text(max_size=20), st.lists(st.floats(0, 1), max_size=20), st.floats(0, 1))
def test_any_text_gives_ordered_spans(text: str, values: list[float], threshold: float) -> None:
    probs = np.asarray(values[: len(text)], dtype=np.float64)
    offsets = offsets_of(*((n, n + 1) for n in range(len(probs))))
    spans = unsupported_spans(text, offsets, probs, threshold)
    last = -1
    for span in spans:
        assert last < span.start < span.end <= len(text)
        assert 0.0 <= span.probability <= 1.0
        assert not span.text[0].isspace() and not span.text[-1].isspace()
        last = span.end


ACCENTS = ["un", "re", "\u0301", "gle", "\u0300s"]


@pytest.mark.parametrize(
    ("text", "pieces", "unsupported", "wanted"),
    [
        ("the river mill", ["the", "riv", "er", "mill"], [1], ["river"]),
        ("the river mill", ["the", "riv", "er", "mill"], [2, 3], ["river mill"]),
        # Two pieces of one word are one span, not two.
        ("lamplighters", ["lamp", "light", "ers"], [0, 2], ["lamplighters"]),
        ("a mill, red", ["a", "mill", ",", "red"], [1, 2], ["mill,"]),
        ("a mill (red)", ["a", "mill", "(", "red", ")"], [2, 3, 4], ["(red)"]),
        ("no, it was.", ["no", ",", "it", "was", "."], [1, 4], []),
        ("it was a lamp", ["it", "was", "a", "lamp"], [2], []),
        ("ten lamps", ["ten", " ", "lamps"], [1], []),
        ("ten lamps", ["ten", " lamps"], [1], ["lamps"]),
        # é and è as a letter and an accent of its own: nothing is torn, the word goes on behind it.
        ("un re\u0301gle\u0300s ici", ACCENTS, [1], ["re\u0301gle\u0300s"]),
        ("un re\u0301gle\u0300s ici", ACCENTS, [4], ["re\u0301gle\u0300s"]),
        # Vowel signs follow their letters without being letters.
        ("एक हिन्दी शब्द", ["एक", "हि", "न्", "दी", "शब्द"], [2], ["हिन्दी"]),
        # A farmer is a woman, a joiner and an ear of rice; with a tone of skin between.
        ("so 👩\u200d🌾 ok", ["so", "👩", "\u200d", "🌾", "ok"], [3, 4], ["👩\u200d🌾 ok"]),
        (
            "so 👩🏽\u200d🌾 ok",
            ["so", "👩", "🏽", "\u200d", "🌾", "ok"],
            [2, 3, 4, 5],
            ["👩🏽\u200d🌾 ok"],
        ),
        ("so ok ❤\ufe0f", ["so", "ok", "❤", "\ufe0f"], [1, 2], ["ok ❤\ufe0f"]),
        # Zero width without joining: one Persian word.
        ("من می\u200cروم", ["من", "می", "روم"], [2], ["می\u200cروم"]),
        ("هذا جسر قديم", ["هذا", "جس", "ر", "قديم"], [1], ["جسر"]),
        # No spaces to snap to.
        ("今日は雨です", ["今日", "は", "雨", "です"], [2, 3], ["雨です"]),
    ],
)
def test_runs_snap_to_whole_words_of_any_script(
    text: str, pieces: list[str], unsupported: list[int], wanted: list[str]
) -> None:
    pairs, end = [], 0
    for piece in pieces:
        start = text.index(piece, end)
        end = start + len(piece)
        pairs.append((start, end))
    probs = np.ones(len(pieces), dtype=np.float32)
    probs[unsupported] = 0.0
    spans = unsupported_spans(text, offsets_of(*pairs), probs, 0.5)
    assert [text[span.start : span.end] for span in spans] == wanted
    assert [span.text for span in spans] == wanted


def test_the_probability_is_the_mean_over_all_tokens_of_the_span() -> None:
    offsets = offsets_of((0, 4), (4, 9), (10, 14))
    (span,) = unsupported_spans("lamplight mill", offsets, np.asarray([0.2, 0.6, 0.9]), 0.5)
    # Its second half is supported, but the word is one word.
    assert (span.start, span.end, span.text) == (0, 9, "lamplight")
    assert span.probability == pytest.approx(1 - (0.2 + 0.6) / 2)


def test_a_token_at_the_threshold_is_supported() -> None:
    offsets = offsets_of((0, 4))
    assert unsupported_spans("mill", offsets, np.asarray([0.5]), 0.5) == ()
    assert len(unsupported_spans("mill", offsets, np.asarray([0.49]), 0.5)) == 1
    assert unsupported_spans("", offsets_of(), np.zeros(0), 0.5) == ()


def test_one_long_word_takes_linear_time() -> None:
    text, tokens = "0123456789" * 20_000, 50_000
    offsets = np.stack([np.arange(tokens) * 4, np.arange(1, tokens + 1) * 4], axis=1)
    (span,) = unsupported_spans(text, offsets, np.arange(tokens) % 2 * 0.9, 0.5)
    assert (span.start, span.end) == (0, len(text))


@given(st.text(st.sampled_from("ab1,.;: ()—-\n") | st.characters(), max_size=60))
def test_clauses_fill_their_sentence(text: str) -> None:
    cuts = clause_cuts(text)
    assert (cuts[0], cuts[-1]) == (0, len(text)) and cuts == sorted(cuts)
    pieces = [text[a:b] for a, b in pairwise(cuts)]
    assert len(pieces) <= 1 or all(any(map(str.isalnum, piece)) for piece in pieces)


def test_what_a_sentence_has_from_a_source_in_order_is_copied() -> None:
    text = "The old mill was sold in 1850."
    copied = copied_spans(text, "In 1790 the mill was built, and sold.", 0.4)
    assert [text[span.start : span.end] for span in copied] == ["The", "mill was sold"]
    assert copied_spans(text, "A bakery was here.", 0.4) == []
    assert clause_cuts("It costs 1,000 euros, and (new) it is red.") == [0, 21, 27, 31, 42]
