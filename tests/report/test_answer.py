"""Cut and rebuilt texts hold every character, whatever the offsets; notebooks show an answer."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.rows import PAYLOADS, Page, make_row, verdict_on
from trivet.records import (
    ContextSentence,
    ContextSpan,
    Evaluation,
    MarkedSpan,
    SentenceVerdict,
    SpanReason,
)
from trivet.report.answer import cut_context, cut_response, matches, rebuilt
from trivet.verdict_json import read_evaluation

offsets = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


@given(st.text(max_size=25), offsets, offsets)
def test_the_pieces_are_the_text(
    text: str, first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    sentences = [SentenceVerdict(a, b, text[a:b], 0.5, True) for a, b in first]
    spans = [MarkedSpan(a, b, text[a:b], 0.5) for a, b in second]
    parts = cut_response(text, sentences, spans)
    assert "".join(piece.text for part in parts for piece in part.pieces) == text
    assert all(piece.text for part in parts for piece in part.pieces)
    context = [ContextSentence(a, b, text[a:b], 0.5, None) for a, b in first]
    assert "".join(part.text for part in cut_context(text, context)) == text


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
    assert 'class="tv-unsupported"' in html
    assert "<script" not in html and "<html" not in html
    assert html.lstrip().startswith('<div class="tv">')
    assert '<p class="tv-verdict tv-bad">unsupported</p>' in html


RESPONSE = "It is of stone. It was built in 1871. I hope this helps!"


def with_value(
    reason: SpanReason, found_at: ContextSpan | None = None, instead: ContextSpan | None = None
) -> Evaluation:
    """Return a verdict with a supported sentence, a wrong year and a sentence without a claim."""
    verdict = verdict_on(("It was built in 1817.", "The dam is of 1871."), RESPONSE, 0.4, None)
    sentences = (
        SentenceVerdict(0, 15, RESPONSE[:15], 0.9, True),
        SentenceVerdict(16, 37, RESPONSE[16:37], 0.2, False),
        SentenceVerdict(38, 56, RESPONSE[38:], None, None),
    )
    year = MarkedSpan(
        32, 36, RESPONSE[32:36], 0.83, reason=reason, found_at=found_at, instead=instead
    )
    return replace(verdict, sentences=sentences, unsupported=(year,))


def test_a_notebook_tells_supported_from_unsupported_and_from_no_claim() -> None:
    page = Page(with_value("not_supported")._repr_html_())
    shown = [
        attributes["class"]
        for _, attributes in page.tags
        if attributes.get("class", "").startswith("tv-sentence")
    ]
    assert shown == [f"tv-sentence tv-{name}" for name in ("supported", "weak", "open")]
    assert [text for text in page.texts["sup"] if text and text[0] in "✓✗n"] == [
        "✓ 0.90",
        "✗ 0.20",
        "no claim",
    ]


@pytest.mark.parametrize(
    ("reason", "found_at", "instead", "explanation"),
    [
        ("not_supported", None, None, ": no context supports it"),
        ("value_not_in_contexts", None, None, ": not in the contexts"),
        (
            "value_not_in_contexts",
            None,
            ContextSpan(0, 16, 20),
            ": not in the contexts; [1] says 1817",
        ),
        (
            "value_of_another_passage",
            ContextSpan(1, 14, 18),
            ContextSpan(0, 16, 20),
            ": only in another passage, [2]; [1] says 1817",
        ),
        # From a verdict file that someone else wrote.
        ("value_of_another_passage", ContextSpan(9, 0, 4), None, ": not in the sources of its"),
    ],
)
def test_a_notebook_says_why_a_span_is_unsupported(
    reason: SpanReason, found_at: ContextSpan | None, instead: ContextSpan | None, explanation: str
) -> None:
    html = with_value(reason, found_at, instead)._repr_html_()
    line = html.partition('<p class="tv-reason"')[2].partition("</p>")[0]
    text = "".join(piece.partition(">")[2] for piece in f"<{line}".split("<"))
    assert text.startswith("marked text: " if reason == "not_supported" else "1871: ")
    assert explanation in text
    links = {attributes["href"][1:] for tag, attributes in Page(html).tags if tag == "a"}
    places = {attributes["id"] for _, attributes in Page(html).tags if "id" in attributes}
    assert links == places  # each number leads to a sentence of a context
    numbers = re.findall(r'-(\d)-1" data-places="[^"]*">\[(\d)\]<', html)
    assert numbers and all(target == number for target, number in numbers)
    assert '-1-1">It was built in 1817.' in html and '-2-1">The dam is of 1871.' in html


@pytest.mark.parametrize("text", [*PAYLOADS, "a\ud800b", "\udfff"])
def test_hostile_values_beside_a_reason_stay_texts(text: str) -> None:
    verdict = verdict_on((text,), text, 0.4, text)
    at = ContextSpan(0, 0, len(text))
    span = MarkedSpan(0, len(text), text, 0.8, "value_of_another_passage", found_at=at, instead=at)
    html = replace(verdict, unsupported=(span,))._repr_html_()
    html.encode()
    tags = {tag for tag, _ in Page(html).tags}
    assert tags <= set("div style p span b i mark sub sup a details summary".split())  # noqa: SIM905
    assert not [
        name for _, attributes in Page(html).tags for name in attributes if name.startswith("on")
    ]


def test_sources_in_one_context_share_its_number() -> None:
    contexts = ("The mill of stone. Its date is 1817.", "It is red.")
    verdict = verdict_on(contexts, "The stone mill of 1817.", 0.9, None)
    first = (
        ContextSentence(0, 18, "The mill of stone.", 0.5, 0.5),
        ContextSentence(19, 36, "Its date is 1817.", 0.5, 0.5),
    )
    verdict = replace(
        verdict, contexts=(replace(verdict.contexts[0], sentences=first), verdict.contexts[1])
    )
    html = verdict._repr_html_()
    places = re.findall(r'data-places="([^"]*)">\[(\d)\]<', html)
    assert [(len(targets.split()), number) for targets, number in places] == [(2, "1")]
    assert html.count('class="tv-s tv-r5 tv-u5" data-n="0.50·0.50" id="') == 2
