"""Alterations against a made-up world in which every label can be read off the texts again.

A passage's sentence states one numbered fact; a sentence of the response names the facts it stands
on, and is supported while one of them is stated; the question names the facts that are relevant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trivet.labelled.augmentation.altered_contexts import (
    drop_contexts,
    insert_contexts,
    permute_contexts,
)
from trivet.labelled.augmentation.altered_responses import (
    cut_response,
    empty_response,
    quote_contexts,
    take_pair,
)
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

GENERAL = "So it goes."
KEPT_KEYS = ("unsupported", "adherent", "relevant", "utilized", "evidence")


def facts(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"\d+", text)}


def sentences(text: str) -> list[Span]:
    return [Span(match.start(), match.end()) for match in re.finditer(r"[^ .][^.]*\.", text)]


def written(text: str, span: Span | ContextSpan) -> str:
    return text[span.start : span.end]


def stated(contexts: Sequence[str]) -> list[tuple[ContextSpan, int]]:
    return [
        (ContextSpan(number, span.start, span.end), facts(written(text, span)).pop())
        for number, text in enumerate(contexts)
        for span in sentences(text)
    ]


def truth(example: RagExample) -> Labels:
    """Read every label off the texts."""
    places = stated(example.contexts)
    here = {fact for _, fact in places}
    told = [(span, facts(written(example.response, span))) for span in sentences(example.response)]
    unsupported = tuple(span for span, named in told if named and not named & here)
    return Labels(
        unsupported=unsupported,
        adherent=not unsupported,
        relevant=tuple(span for span, fact in places if fact in facts(example.question)),
        utilized=tuple(span for span, fact in places if fact in facts(example.response)),
        evidence=tuple(
            Evidence(span, tuple(source for source, fact in places if fact in named))
            for span, named in told
            if not named or named & here
        ),
        contradicted=(),  # what is made up is not mentioned
    )


def hidden(labels: Labels, key: str) -> Labels:
    unknown: dict[str, Any] = {key: None}
    return replace(labels, **unknown)


@st.composite
def rows(draw: st.DrawFn, first: int = 10, group: str = "own") -> LabelledExample:
    """Draw an example whose facts are numbered from ``first``, with some of its labels hidden."""
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    numbers = iter(range(first, first + 40))
    contexts = [" ".join(f"Mark {next(numbers)} is red." for _ in range(n)) for n in counts]
    known = st.integers(first, first + sum(counts) - 1)
    named = st.lists(known, min_size=1, max_size=3, unique=True)
    says = st.one_of(
        named.map(lambda numbers: "It says " + " and ".join(map(str, numbers)) + "."),
        st.integers(first + 40, first + 49).map(lambda made_up: f"It says {made_up}."),
        st.just(GENERAL),
    )
    response = " ".join(draw(st.lists(says, max_size=5)))
    question = "What of " + " and ".join(map(str, draw(named))) + "?"
    brought = draw(st.booleans())
    example = RagExample(
        question,
        tuple(contexts),
        response,
        id=group,
        context_sentences=tuple(tuple(sentences(c)) for c in contexts) if brought else None,
        response_sentences=tuple(sentences(response)) if brought else None,
    )
    labels = truth(example)
    labels = replace(labels, relevance=0.5, utilization=0.5, completeness=0.5)
    if not response:
        labels = Labels(relevant=labels.relevant, relevance=0.5)
    for key in draw(st.sets(st.sampled_from(KEPT_KEYS))):
        labels = hidden(labels, key)
    if labels.evidence and draw(st.booleans()):  # a supported sentence whose support is not named
        labels = replace(labels, evidence=labels.evidence[1:])
    return LabelledExample(example, labels, "made-up", group)


@st.composite
def altered(draw: st.DrawFn) -> tuple[LabelledExample, LabelledExample, list[str]]:
    """Draw a row and some alterations of it, one after another."""
    start = row = draw(rows())
    done = draw(st.lists(st.sampled_from(["pair", "drop", "insert", "order", "cut"]), max_size=4))
    for number, name in enumerate(done):
        count = len(row.example.contexts)
        if name == "drop":
            keep = draw(st.sets(st.integers(0, count - 1), min_size=1))
            row = drop_contexts(row, sorted(keep))
        elif name == "insert":
            other = draw(rows(100 * (number + 1), "other")).example
            places = [draw(st.integers(0, count)) for _ in other.contexts]
            row = insert_contexts(row, other.contexts, places, other.context_sentences)
        elif name == "order":
            row = permute_contexts(row, draw(st.permutations(range(count))))
        elif name == "pair":
            row = take_pair(row, draw(rows(100 * (number + 1), "other")))
        else:
            row = cut_response(row, draw(st.integers(1, 4)))
    return start, row, done


def check(row: LabelledExample, other_pair: bool) -> None:
    """Hold what is known of a row against its texts; what is unknown is never wrong."""
    example, labels, true = row.example, row.labels, truth(row.example)
    if labels.unsupported is not None:
        assert true.unsupported is not None
        wrong = characters(labels.unsupported)
        for span in sentences(example.response):
            inside = set(range(span.start, span.end))
            if inside & characters(labels.unclear):
                assert not inside & wrong, "a sentence is decided or it is not"
            elif other_pair and written(example.response, span) == GENERAL:
                continue  # of these nobody can tell
            else:
                assert inside & wrong == (inside if span in true.unsupported else set())
    else:
        assert not labels.unclear
    if labels.adherent is not None and not other_pair:
        assert labels.adherent == true.adherent
    if labels.adherent:
        assert true.adherent
    assert labels.contradicted in (None, ())
    assert labels.relevant in (None, true.relevant)
    assert labels.utilized in (None, true.utilized)
    for evidence in labels.evidence or ():
        assert true.evidence is not None
        assert evidence in true.evidence
    if example.context_sentences is not None:
        assert len(example.context_sentences) == len(example.contexts)
        for text, spans in zip(example.contexts, example.context_sentences, strict=True):
            assert list(spans) == sentences(text)
    if example.response_sentences is not None:
        assert list(example.response_sentences) == sentences(example.response)


def characters(spans: Sequence[Span]) -> set[int]:
    return {offset for span in spans for offset in range(span.start, span.end)}


@settings(max_examples=200)
@given(altered())
def test_labels_stay_true(drawn: tuple[LabelledExample, LabelledExample, list[str]]) -> None:
    start, row, done = drawn
    check(start, other_pair=False)
    check(row, other_pair="pair" in done)
    if "drop" not in done and "insert" not in done and "pair" not in done:
        assert row.labels.relevance == start.labels.relevance
    assert (row.source, row.group, row.weight) == (start.source, start.group, start.weight)
    assert row.example.id == "own"


def known(contexts: Sequence[str], response: str, question: str = "What of 10?") -> LabelledExample:
    """Return an example of which everything is known."""
    example = RagExample(question, tuple(contexts), response)
    return LabelledExample(example, truth(example), "made-up", "own")


TWO = known(
    ["Mark 10 is red. Mark 11 is red.", "Mark 20 is red."],
    f"It says 10. It says 20. It says 11 and 20. {GENERAL}",
)


@pytest.mark.parametrize(
    ("dropped", "kept", "expected"),
    [
        ("Mark 10 is red.", "Mark 11 is red. Mark 10 is red.", (ContextSpan(0, 16, 31),)),
        ("12", "Founded in 2012.", ()),
    ],
)
def test_evidence_is_also_found_in_a_kept_context_but_only_as_whole_words(
    dropped: str, kept: str, expected: tuple[ContextSpan, ...]
) -> None:
    claim, source = Span(0, 11), ContextSpan(0, 0, len(dropped))
    labels = Labels(unsupported=(), evidence=(Evidence(claim, (source,)),))
    example = RagExample("How many?", (dropped, kept), "It says 12.")
    after = drop_contexts(LabelledExample(example, labels, "made-up", "own"), [1]).labels
    assert after.evidence == ((Evidence(claim, expected),) if expected else ())
    assert after.unsupported == (() if expected else (claim,))


def test_unknown_evidence_makes_support_unknown_but_not_what_is_unsupported() -> None:
    row = known(["Mark 10 is red.", "Mark 11 is red."], "It says 10. It says 55.")
    spans_alone = Labels(unsupported=row.labels.unsupported, adherent=False)
    labels = drop_contexts(replace(row, labels=spans_alone), [1]).labels
    assert labels.unsupported == (Span(12, 23),)
    assert labels.unclear == (Span(0, 11),)
    assert labels.adherent is False


def test_an_exchanged_pair_is_unsupported_irrelevant_and_unutilized() -> None:
    other = known(["Mark 30 is red."], f"It says 30. {GENERAL}", "What of 30?")
    row = take_pair(TWO, other)
    assert row.example.contexts == TWO.example.contexts
    assert (row.example.question, row.example.response) == ("What of 30?", other.example.response)
    assert row.labels == Labels(
        unsupported=(Span(0, 11),),
        unclear=(Span(12, 12 + len(GENERAL)),),
        adherent=False,
        relevant=(),
        utilized=(),
        evidence=(),
        contradicted=(),
    )


def test_a_prefix_keeps_what_the_evidence_tells_of_it() -> None:
    first = cut_response(TWO, 1)
    assert first.example.response == "It says 10."
    assert first.labels == truth(first.example)
    unnamed = replace(TWO, labels=replace(TWO.labels, evidence=(), utilization=0.5))
    assert cut_response(unnamed, 1).labels.utilized is None
    assert cut_response(unnamed, 1).labels.utilization is None
    assert cut_response(TWO, 9) is TWO
    unclear = replace(TWO, labels=Labels(unsupported=(), unclear=(Span(0, 11),)))
    assert cut_response(unclear, 1).labels.adherent is None


def test_without_a_response_relevance_alone_is_known() -> None:
    row = empty_response(replace(TWO, labels=replace(TWO.labels, relevance=0.4, utilization=0.3)))
    assert row.labels == Labels(relevant=TWO.labels.relevant, relevance=0.4)
    assert row.example == replace(TWO.example, response="")


def test_quoted_sentences_are_supported_by_themselves() -> None:
    quoted = [ContextSpan(1, 0, 4), ContextSpan(0, 0, 4)]
    row = quote_contexts(TWO, quoted)
    texts = [TWO.example.contexts[span.context][span.start : span.end] for span in quoted]
    assert row.example.response == " ".join(texts)
    assert row.labels.evidence is not None
    for evidence, text, span in zip(row.labels.evidence, texts, quoted, strict=True):
        assert row.example.response[evidence.response.start : evidence.response.end] == text
        assert evidence.contexts == (span,)
    assert (row.labels.unsupported, row.labels.adherent) == ((), True)
    assert (row.labels.relevant, row.labels.utilized) == (TWO.labels.relevant, None)
