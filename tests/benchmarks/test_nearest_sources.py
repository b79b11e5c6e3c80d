"""The benchmark of sources counts the labelled evidence, by hand."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.nearest_sources import (
    COLUMNS,
    Agreement,
    by_head,
    by_words,
    supported_sentences,
    table_row,
    verdict_on,
)
from benchmarks.report import Table
from trivet.records import (
    ContextSpan,
    Evidence,
    EvidenceSpan,
    LabelledExample,
    Labels,
    RagExample,
    Span,
)

CONTEXTS = ("The mill is old. It was built in 1817.", "The ferry is red.")
RESPONSE = "It was built in 1817. The ferry is red."
SENTENCES = ((Span(0, 16), Span(17, 38)), (Span(0, 17),))
EVIDENCE = (
    Evidence(Span(0, 21), (ContextSpan(0, 17, 38),)),
    Evidence(Span(22, 39), (ContextSpan(0, 0, 16),)),  # another one
    Evidence(Span(0, 0), ()),
)
LABELLED = LabelledExample(
    RagExample("When?", CONTEXTS, RESPONSE, context_sentences=SENTENCES),
    Labels(evidence=EVIDENCE),
    "mine",
    "g",
)


def test_a_source_by_words_is_right_where_it_overlaps_the_evidence() -> None:
    assert by_words(LABELLED) == [Agreement((True,), 1), Agreement((False,), 1)]


def test_the_sources_of_a_verdict_are_compared_in_their_order() -> None:
    verdict = verdict_on(LABELLED.example, supported_sentences(LABELLED))
    sources = (EvidenceSpan(1, 0, 17, 0.9), EvidenceSpan(0, 0, 16, 0.5))
    first, second = verdict.sentences
    judged = (replace(first, evidence=()), replace(second, evidence=sources))
    found = by_head(LABELLED, replace(verdict, sentences=judged))
    assert found == [Agreement((), 1), Agreement((False, True), 1)]


def test_the_table_has_the_means_over_sentences_and_the_counts_of_pairs() -> None:
    found = [Agreement((False, True), 1), Agreement((True,), 2)] * 10
    table = Table("", COLUMNS, [table_row("head", range(20), found)]).to_markdown()
    cells = table.splitlines()[-1].split(" | ")
    assert cells[1] == "20"
    assert [cell[:5] for cell in cells[2:5]] == ["0.500", "1.000", "0.750"]
    assert cells[5:] == ["0.667", "0.667", "0.667 |"]


def test_few_documents_have_no_interval_and_no_sentences_no_mean() -> None:
    assert table_row("head", [0, 1], [Agreement((True,), 1)] * 2)[2] == "1.000"
    assert table_row("head", [], [])[1:3] == ("0", "-")
