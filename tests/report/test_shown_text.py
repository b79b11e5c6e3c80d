"""What a reader cannot see is spelled out; everything else is the text itself."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.report.pages import shown_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abc\u202ecba\u202c", "abc[U+202E]cba[U+202C]"),
        ("\u2066x\u2069", "[U+2066]x[U+2069]"),
        ("pay\u200bpal\ufeff", "pay[U+200B]pal[U+FEFF]"),
        ("a\ud800b", "a[U+D800]b"),
        ("a\U000e0041b", "a[U+E0041]b"),
        ("bell\x07 nul\x00 esc\x1b[2J", "bell\ufffd nul\ufffd esc\ufffd[2J"),
        ("line\r\nline\rline\n\ttab", "line\nline\nline\n\ttab"),
        ("👩\u200d🌾 é हिन्दी می\u200cخواهم", "👩\u200d🌾 é हिन्दी می\u200cخواهم"),
    ],
)
def test_the_unseen_is_spelled_out(text: str, shown: str) -> None:
    assert shown_text(text) == shown


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]) | st.sampled_from("\n\t")))
def test_plain_text_stays_as_it_is(text: str) -> None:
    seen = "".join(c for c in text if c not in "\u115f\u1160\u3164")  # letters without a shape
    assert shown_text(seen) == seen


@given(st.text())
def test_nothing_is_left_that_steers_or_cannot_be_written(text: str) -> None:
    shown = shown_text(text)
    shown.encode()
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs")
        assert unicodedata.bidirectional(character) not in {
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        }
