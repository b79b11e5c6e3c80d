"""Agreement of labels from an annotator with published ones."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.annotation_agreement import decisions, line
from trivet.records import ContextSpan, LabelledExample, Labels, RagExample, Span

EXAMPLE = RagExample(
    "Who?",
    ("One. Two.",),
    "Yes. No.",
    context_sentences=((Span(0, 4), Span(5, 9)),),
    response_sentences=(Span(0, 4), Span(5, 8)),
)
PUBLISHED = LabelledExample(
    EXAMPLE,
    Labels(adherent=False, unsupported=(Span(5, 8),), relevant=(ContextSpan(0, 5, 9),)),
    source="set",
    group="document",
)


def test_sentences_are_decided_by_the_spans_that_overlap_them() -> None:
    labels = Labels(adherent=True, unsupported=(Span(0, 2),), relevant=(ContextSpan(0, 0, 9),))
    assert list(decisions(replace(PUBLISHED, labels=labels), PUBLISHED)) == [
        ("response adherent", True, False),
        ("response sentence supported", False, True),
        ("response sentence supported", True, False),
        ("context sentence relevant", True, False),
        ("context sentence relevant", True, True),
    ]


def test_a_field_has_the_kappa_of_its_decisions() -> None:
    found = [("a", "field", True, True), ("b", "field", True, False), ("c", "field", False, False)]
    assert line("field", found)[:6] == ("field", "3", "0.67", "0.33", "0.67", "0.40")
