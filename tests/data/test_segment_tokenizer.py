"""Text to ids and offsets, with either kind of tokenizer: offsets hold, nothing can be forged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from trivet.data.tokenization import SegmentTokenizer

ODD = ["\x00", "\ud800", "\udfff", "\ufffd", "\u200d", "\u3000", "\x85", "\u2029", "é", "e\u0301"]
ODD += ["🌉", "👩‍🌾", "جسر", "今日", "[SEP]", "［SEP］", "[CLS]", "[PAD]", "[UNK]", " ", "  ", "\n"]
TEXTS = st.lists(st.sampled_from([*ODD, "mill", "The", "a", "17", "xyz"]) | st.text(max_size=3))
WORDS = st.sampled_from(["mill", "river", "the", "lamp", "xyz", "bridges", "1817", ".", ",", "("])


@pytest.fixture(scope="module")
def names(tokenizer_file: Path) -> dict[int, str]:
    """Return the piece of every id."""
    vocabulary = tokenizers.Tokenizer.from_file(str(tokenizer_file)).get_vocab()
    return {number: piece for piece, number in vocabulary.items()}


def test_specials_are_found_by_name(tokenizer: SegmentTokenizer, names: dict[int, str]) -> None:
    special = tokenizer.special
    pieces = [names[special.cls], names[special.sep], names[special.pad]]
    assert pieces == ["[CLS]", "[SEP]", "[PAD]"]
    assert tokenizer.vocab_size == len(names)


@pytest.mark.parametrize(
    "forged", ["[SEP]", "［SEP］", "[CLS]", "[PAD]", "[MASK]", "mill[SEP]mill"]
)
def test_forged_specials(tokenizer: SegmentTokenizer, names: dict[int, str], forged: str) -> None:
    (segment,) = tokenizer.encode([f"the {forged} mill"])
    assert not {names[int(i)] for i in segment.ids} & {"[SEP]", "[CLS]", "[PAD]", "[MASK]"}
    covered = {n for start, end in segment.offsets for n in range(start, end)}
    assert set(range(4, 4 + len(forged))) <= covered


@given(pieces=TEXTS)
def test_any_text_has_ordered_offsets(tokenizer: SegmentTokenizer, pieces: list[str]) -> None:
    text = "".join(pieces)
    (segment,) = tokenizer.encode([text])
    assert segment.ids.dtype == segment.offsets.dtype == np.int64
    assert segment.offsets.shape == (len(segment), 2)
    start, end = segment.offsets[:, 0], segment.offsets[:, 1]
    assert (start >= 0).all() and (start <= end).all() and (end <= len(text)).all()
    assert (np.diff(start) >= 0).all() and (np.diff(end) >= 0).all()
    assert (segment.ids < tokenizer.vocab_size).all()
    special = tokenizer.special
    assert not np.isin(segment.ids, [special.cls, special.sep, special.pad]).any()
    for first, last in segment.offsets:
        covered = text[first:last]
        assert covered == covered.lstrip() or covered.isspace()


@given(words=st.lists(WORDS), gap=st.sampled_from([" ", "  ", "\n", " \t "]))
def test_the_text_of_every_offset_is_the_token(
    tokenizer: SegmentTokenizer, names: dict[int, str], words: list[str], gap: str
) -> None:
    text = gap.join(words)
    (segment,) = tokenizer.encode([text])
    for number, (start, end) in zip(segment.ids, segment.offsets, strict=True):
        piece = names[int(number)].removeprefix("▁").removeprefix("##")
        if piece and piece != "[UNK]":
            assert text[start:end].strip().lower() == piece.lower()
    assert bool(len(segment)) == bool(words)


@given(several=st.lists(TEXTS.map("".join), max_size=5))
def test_each_text_is_read_alone(tokenizer: SegmentTokenizer, several: list[str]) -> None:
    batch = tokenizer.encode(several)
    for text, segment in zip(several, batch, strict=True):
        (alone,) = tokenizer.encode([text])
        np.testing.assert_array_equal(segment.ids, alone.ids)
        np.testing.assert_array_equal(segment.offsets, alone.offsets)


@pytest.mark.parametrize("odd", ["\ud800", "\udfff\udfff", "\x00", "🌉", "é", "\u200d", "[SEP]"])
def test_offsets_hold_behind_odd_characters(tokenizer: SegmentTokenizer, odd: str) -> None:
    text = f"the {odd} mill"
    (segment,) = tokenizer.encode([text])
    start, end = segment.offsets[-1]
    assert text[start:end] == "mill"


def test_the_files_own_truncation_and_padding_are_off(tokenizer: SegmentTokenizer) -> None:
    assert [len(segment) for segment in tokenizer.encode(["mill", "mill " * 40, ""])] == [1, 40, 0]
    assert tokenizer.encode([]) == []


def test_a_tokenizer_survives_its_own_json(tokenizer: SegmentTokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_json(), encoding="utf-8")
    text = "The old mill [SEP] was built in 1817."
    same = SegmentTokenizer.from_file(path)
    assert same.to_json() == tokenizer.to_json()
    (again,), (first,) = same.encode([text]), tokenizer.encode([text])
    np.testing.assert_array_equal(again.ids, first.ids)
    np.testing.assert_array_equal(again.offsets, first.offsets)


def test_a_long_word_is_read_in_pieces(wordpiece_file: Path) -> None:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    # WordPiece alone reads any word over its limit of 100 characters as one unknown token.
    unknown = tokenizer.encode(["\u2603"])[0].ids.tolist()
    for text in ("a" * 150, "the " + "mill" * 60):
        segment = tokenizer.encode([text])[0]
        assert segment.ids.tolist() != unknown
        assert segment.offsets[-1, 1] == len(text)
        assert (np.diff(segment.offsets, axis=1) <= 64).all()
