"""Citation marks are found in the response, and checked against the sources of their sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.rows import unmarked_verdict
from trivet.data.sentences import split_sentences
from trivet.records import CitationMark, Evaluation, EvidenceSpan, SentenceVerdict
from trivet.report.shown_sources import check_citations

CONTEXTS = (
    "The mill was built of stone in 1817.",
    "The ferry is red.",
    "The bridge is made of iron.",
)


def verdict_of(response: str, unsupported: str = "-") -> Evaluation:
    sentences = [
        SentenceVerdict(at.start, at.end, text, 0.5, unsupported not in text)
        for at in split_sentences(response)
        for text in [response[at.start : at.end]]
    ]
    return unmarked_verdict(sentences, [[text] for text in CONTEXTS])


@pytest.mark.parametrize(
    ("marks", "contexts"),
    [
        ("[1]", [0]),
        ("[1][3]", [0, 2]),
        ("[1, 3]", [0, 2]),
        ("[1; 2]", [0, 1]),
        ("[1-3]", [0, 1, 2]),
        ("[2–3,1]", [1, 2, 0]),
        ("[0]", [-1]),
        ("[9]", [8]),
        ("[3-1] [1]", [0]),
        ("[sic] [2024] (1) [1]", [0]),
    ],
)
def test_each_form_of_a_mark_names_its_contexts(marks: str, contexts: list[int]) -> None:
    response = f"It was built in 1817 {marks}."
    citations = check_citations(verdict_of(response))
    assert citations is not None
    assert [mark.context for mark in citations.marks] == contexts
    assert all(
        response[mark.start] == "[" and response[mark.end - 1] == "]" for mark in citations.marks
    )


@pytest.mark.parametrize(
    "response", ["", "It is old.", "[1] The mill.\n[2] The ferry.", "a[i] b[]"]
)
def test_a_response_without_marks_has_no_citations(response: str) -> None:
    assert check_citations(verdict_of(response)) is None


NAMES = (("doc-7", "Smith (2020): Mills"), ("B, 2", "The ferry"), ("1", "Smith and Jones, 2020"))


@pytest.mark.parametrize(
    ("marks", "contexts"),
    [
        ("[doc-7]", [0]),
        ("[Doc-7; the ferry]", [0, 1]),
        ("[B, 2]", [1]),  # an id with a comma
        ("[doc-7, 3]", [0, 2]),
        ("[1]", [0]),  # a position before an id
        ("(Smith 2020)", [0]),
        ("(Doc-7) (doc-7, doc-8) (B, 2) (1)", [0]),  # round: an id of letters and digits
        ("(Smith & Jones, 2020)", [2]),
        ("(see Smith et al., 2020; Jones 2020b)", [0, 2]),
        ("[doc-8] (Smith 2019) (The ferry) (in 1817) [sic] [2]", [1]),
    ],
)
def test_marks_may_name_ids_and_titles(marks: str, contexts: list[int]) -> None:
    response = f"It was built in 1817 {marks}."
    verdict = verdict_of(response)
    named = tuple(
        replace(context, id=id_, title=title)
        for context, (id_, title) in zip(verdict.contexts, NAMES, strict=True)
    )
    citations = check_citations(replace(verdict, contexts=named))
    assert citations is not None
    assert [mark.context for mark in citations.marks] == contexts
    assert {response[mark.start] + response[mark.end - 1] for mark in citations.marks} <= {
        "[]",
        "()",
    }


def test_precision_counts_marks_and_recall_counts_sentences() -> None:
    response = "The mill was built in 1817 [1][2]. The ferry is red.[2] The bridge is made of iron."
    citations = check_citations(verdict_of(response))
    assert citations is not None
    assert [(mark.context, mark.supported) for mark in citations.marks] == [
        (0, True),
        (1, False),
        (1, True),
    ]
    assert (citations.precision, citations.recall) == (2 / 3, 2 / 3)


def test_a_mark_in_an_unsupported_sentence_is_wrong_and_needs_no_recall() -> None:
    citations = check_citations(verdict_of("The ferry is red [2].", unsupported="ferry"))
    assert citations is not None
    assert citations.marks == (CitationMark(17, 20, 1, False),)
    assert (citations.precision, citations.recall) == (0.0, None)


def test_a_mark_is_checked_against_the_evidence_not_against_shared_words() -> None:
    verdict = verdict_of("The ferry is red [1][2].")
    by_words = check_citations(verdict)
    evidence = (EvidenceSpan(0, 0, len(CONTEXTS[0]), 0.9),)
    (sentence,) = verdict.sentences
    by_head = check_citations(replace(verdict, sentences=(replace(sentence, evidence=evidence),)))
    for citations, supported in ((by_words, [False, True]), (by_head, [True, False])):
        assert citations is not None
        assert [mark.supported for mark in citations.marks] == supported
