"""Sentence splitting loses no text and never panics."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import sentencex
from hypothesis import example, given
from hypothesis import strategies as st

from trivet.data.sentences import GrowingText, split_sentences
from trivet.records import Span


def pieces(text: str) -> list[str]:
    return [text[span.start : span.end] for span in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The kiln is hot. Stand back!", ["The kiln is hot.", "Stand back!"]),
        ("Dr. Aldo waits.  He paid $3.5 then.", ["Dr. Aldo waits.", "He paid $3.5 then."]),
        ("Mix 4 g. A pinch more is fine.", ["Mix 4 g.", "A pinch more is fine."]),
        ("It fires approx. 9 hours.", ["It fires approx. 9 hours."]),
        ("We use ASP.NET and .NET. It runs.", ["We use ASP.NET and .NET.", "It runs."]),
        ("Steps: 1. Wet it. 2. Rest.", ["Steps:", "1. Wet it.", "2. Rest."]),
        ("Is it 5? Yes.</think> It is 5.", ["Is it 5?", "Yes.", "</think>", "It is 5."]),
        ("Glaze list\nCobalt blue\nTin white", ["Glaze list", "Cobalt blue", "Tin white"]),
        ("A line that\ngoes on below.", ["A line that\ngoes on below."]),
        ("heading\n\nlower case after a gap", ["heading", "lower case after a gap"]),
        (
            "Steps:\n1. Wet the clay. Knead it.\n2. Rest.\n  a) cover",
            ["Steps:", "1. Wet the clay.", "Knead it.", "2. Rest.", "a) cover"],
        ),
        ("First.\r\nSecond.\u2028Third.\u2029fourth", ["First.", "Second.", "Third.", "fourth"]),
        ("窯は熱い。 離れて。", ["窯は熱い。", "離れて。"]),
        ("...", ["..."]),
        ("1790.", ["1790."]),
        ("", []),
        (" \n\u3000\t", []),
    ],
)
def test_what_a_sentence_is(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


SAMPLE = "aB1. \n\r\t\u00a0\u3000\u2028\u2029\x85!?é中\U0001f600\x00"


@given(st.text(alphabet=st.sampled_from(SAMPLE)))
@example("We saw a\u00a0. Then b\u2028. And c\u3000. End\x85.")
@example("half \ud800 of a pair. Another \udfff one.")
@example("שלום. \u200f עולם! \U0001f469\u200d\U0001f680 fine.")
def test_spans_cover_everything_but_white_space(text: str) -> None:
    spans = split_sentences(text)
    reached = 0
    for span in spans:
        assert reached <= span.start < span.end
        assert not text[reached : span.start].strip()
        assert text[span.start : span.end].strip() == text[span.start : span.end]
        reached = span.end
    assert not text[reached:].strip()


def test_every_white_space_and_full_stop_is_safe() -> None:
    spaces = [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()]
    text = "".join(f"ab{space}. Then" for space in spaces)
    joined = "".join(pieces(text))
    assert "".join(joined.split()) == "".join(text.split())


@pytest.mark.parametrize("unit", [". ", "\n", "a\n", "1. ", "\u2029 ", "x. Y "])
def test_long_dull_texts_take_linear_time(unit: str) -> None:
    text = unit * 100_000
    spans = split_sentences(text)
    assert sum(span.end - span.start for span in spans) <= len(text)


@pytest.mark.parametrize("unit", ["'", '",', "\u201c", "It is so. ", "It fell. He said so. "])
def test_a_line_is_read_in_bounded_stretches(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = sentencex.get_sentence_boundaries
    whole = read("en", text := unit * (50_000 // len(unit)))
    lengths: list[int] = []

    def counted(language: str, line: str) -> Any:
        lengths.append(len(line))
        return read(language, line)

    monkeypatch.setattr(sentencex, "get_sentence_boundaries", counted)
    spans = split_sentences(text)
    # Quotes take the splitter the square of their number: bounded stretches keep that small.
    assert max(lengths) <= 20_000
    assert len(lengths) <= 4
    # The end of a stretch is not the end of a sentence.
    assert len(spans) == len(whole)


class PanicException(BaseException):
    """Named as the panics of Rust libraries are."""


def test_panic_fallback(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    raised: list[BaseException] = [PanicException()]

    def panic(language: str, text: str) -> Any:
        raise raised[0]

    monkeypatch.setattr(sentencex, "get_sentence_boundaries", panic)
    text = 'The kiln is hot (very). "Stand back!" A line. 窯は熱い。離れて。'
    expected = ["The kiln is hot (very).", '"Stand back!"', "A line.", "窯は熱い。", "離れて。"]
    assert pieces(text) == expected
    assert "panicked" in caplog.text
    raised[0] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        split_sentences("Anything.")


GROWING = (
    'It is old. He said "It is new. It is red." and left.\nA list:\n1. One, e.g. this\n2. Two 3.5 '
    "Dr. Who came! \u6a4b\u3002\u5ddd\u3002 No end"
)


@pytest.mark.parametrize("length", [1, 2, 5, 13, 500])
def test_a_text_that_grows_has_the_same_sentences_however_it_is_cut(length: int) -> None:
    growing, whole = GrowingText(), GrowingText()
    completed = [
        span
        for start in range(0, len(GROWING), length)
        for span in growing.append(GROWING[start : start + length])
    ]
    assert completed == whole.append(GROWING)
    assert completed[:1] == [Span(0, 10)]
    assert GROWING[growing.start :].strip() == "No end"
    assert growing.rest() == whole.rest()
    assert growing.start == len(GROWING)


def test_a_sentence_of_a_growing_text_has_an_end_at_last() -> None:
    growing = GrowingText()
    spans = growing.append("word " * 3000)
    assert [span.end - span.start > 4000 for span in spans] == [True, True]
