"""Cut and rebuilt texts hold every character, whatever the offsets; notebooks show an answer."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.report.rows import make_row
from trivet.records import ContextSentence, SentenceVerdict, UnsupportedSpan
from trivet.report.answer import cut_context, cut_response, matches, rebuilt
from trivet.verdict_json import read_evaluation

offsets = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


@given(st.text(max_size=25), offsets, offsets)
def test_the_pieces_are_the_text(
    text: str, first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    sentences = [SentenceVerdict(a, b, text[a:b], 0.5, True) for a, b in first]
    spans = [UnsupportedSpan(a, b, text[a:b], 0.5) for a, b in second]
    parts = cut_response(text, sentences, spans)
    assert "".join(piece.text for part in parts for piece in part.pieces) == text
    assert all(piece.text for part in parts for piece in part.pieces)
    context = [ContextSentence(a, b, text[a:b], 0.5, None) for a, b in first]
    assert "".join(part.text for part in cut_context(text, context)) == text


def test_by_hand() -> None:
    text = "One two. Three four."
    sentences = [
        SentenceVerdict(0, 8, "One two.", 0.9, True),
        SentenceVerdict(9, 20, "Three four.", 0.2, False),
    ]
    spans = [UnsupportedSpan(4, 14, "two. Three", 0.7), UnsupportedSpan(15, 19, "four", 0.8)]
    found = [
        (one.verdict and one.verdict.support, [(p.text, p.probability, p.ends) for p in one.pieces])
        for one in cut_response(text, sentences, spans)
    ]
    assert found == [
        (0.9, [("One ", None, False), ("two.", 0.7, False)]),
        (None, [(" ", 0.7, False)]),
        (0.2, [("Three", 0.7, True), (" ", None, False), ("four", 0.8, True), (".", None, False)]),
    ]


@given(st.text(min_size=1, max_size=40), st.lists(st.integers(1, 40), max_size=5))
def test_a_rebuilt_text_holds_its_spans(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    sentences = [SentenceVerdict(a, b, text[a:b], 0.5, True) for a, b in pairwise(edges)]
    assert rebuilt(sentences) == text
    kept = sentences[::2]
    assert matches(rebuilt(kept), kept)
    assert len(rebuilt(kept)) == max(sentence.end for sentence in kept)
    assert not matches("", sentences)


def test_a_notebook_shows_the_answer_and_runs_nothing() -> None:
    html = read_evaluation(make_row().verdict or {})._repr_html_()
    assert "It was built of stone in 1817." in html
    assert 'class="tv-unsupported tv-b8"' in html
    assert "<script" not in html and "<html" not in html
    assert html.lstrip().startswith('<div class="tv">')
