"""Ways of writing that say the same become the same tokens, at the characters of the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.data.tokenization import SegmentTokenizer

TABLE = "| Plan | Price |\n|---|:---:|\n| Basic | 12 |"
ODD = ["#", "|", "---", "-", ":", ",", "000", "1", "€", "≥", "$", " ", "\t", "\n", "\r\n", "mill"]


@pytest.fixture(scope="module")
def unified(wordpiece_file: Path) -> SegmentTokenizer:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    tokenizer.unify_forms()
    return tokenizer


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("in 12,000 mills", "in 12000 mills"),
        ("1,234,567", "1234567"),
        ("€640", "€ 640"),
        ("≥10", "≥ 10"),
        ("  ## The mill\nis old", "The mill\nis old"),
        ("the mill\n-----\nis old", "the mill\n\nis old"),
        (TABLE, "Plan , Price\n\nBasic , 12"),
        (TABLE.replace("\n", "\r\n"), "Plan , Price\r\n\r\nBasic , 12"),
        ("|:-|-:|\nmill", "\nmill"),
        ("--- | ---\nmill", "\nmill"),
        ("a | b", "a , b"),
        ("It&#8217;s &ldquo;old&rdquo;", 'It\'s "old"'),
        ("&euro;640 a month", "€ 640 a month"),
        ("a caf&eacute; at 5&#176;", "a cafe at 5°"),
        ("old<BR>mill<!-- of 1812 -->", "old mill"),
        ('built in [1790](http://x.org "of 1812")', "built in 1790"),
    ],
)
def test_forms_of_the_same_have_the_same_tokens(
    unified: SegmentTokenizer, text: str, same: str
) -> None:
    first, other = unified.encode([text, same])
    assert first.ids.tolist() == other.ids.tolist() and len(first) > 0


@pytest.mark.parametrize(
    "text",
    [
        *("3,14", "1,2345", "12 ,000", "In 2019,300 mills", "$640", "640 €"),
        *("#7", "C# is old", "####### x", "a|b", "a| b", "-", "-- a", "a---b", "a\n--\nb"),
    ],
)
def test_other_texts_stay_as_they_are(
    unified: SegmentTokenizer, wordpiece_file: Path, text: str
) -> None:
    (before,) = SegmentTokenizer.from_file(wordpiece_file).encode([text])
    (after,) = unified.encode([text])
    assert before.ids.tolist() == after.ids.tolist()
    assert before.offsets.tolist() == after.offsets.tolist()


def test_offsets_are_those_of_the_text(unified: SegmentTokenizer) -> None:
    text = "## The mill\n€12,000"
    (segment,) = unified.encode([text])
    assert [text[a:b] for a, b in segment.offsets] == ["The", "mill", "€", *"12000"]


@given(parts=st.lists(st.sampled_from(ODD), max_size=12))
def test_offsets_rise_and_lie_in_the_text(unified: SegmentTokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    (segment,) = unified.encode([text])
    flat = segment.offsets.ravel().tolist()
    assert flat == sorted(flat) and all(0 <= offset <= len(text) for offset in flat)
    assert all(start < end for start, end in segment.offsets)


def test_a_bundle_keeps_the_forms_and_unifies_them_once(
    tokenizer_file: Path, tmp_path: Path
) -> None:
    tokenizer = SegmentTokenizer.from_file(tokenizer_file)
    tokenizer.unify_forms()
    written = tokenizer.to_json()
    file = tmp_path / "tokenizer.json"
    file.write_text(written, encoding="utf-8")
    again = SegmentTokenizer.from_file(file)
    again.unify_forms()
    assert again.to_json() == written
    first, other = again.encode(["12,000", "12000"])
    assert first.ids.tolist() == other.ids.tolist()
