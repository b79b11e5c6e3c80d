"""The benchmark of sources counts the labelled evidence, by hand."""

from __future__ import annotations

from benchmarks.nearest_sources import hits
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span


def test_a_source_is_right_where_it_overlaps_the_evidence() -> None:
    contexts = ("The mill is old. It was built in 1817.", "The ferry is red.")
    response = "It was built in 1817. The ferry is red."
    sentences = ((Span(0, 16), Span(17, 38)), (Span(0, 17),))
    example = RagExample("When?", contexts, response, context_sentences=sentences)
    evidence = (
        Evidence(Span(0, 21), (ContextSpan(0, 17, 38),)),
        Evidence(Span(22, 39), (ContextSpan(0, 0, 16),)),  # another one
        Evidence(Span(0, 0), ()),
    )
    labelled = LabelledExample(example, Labels(evidence=evidence), "mine", "g")
    assert hits(labelled) == [(True, True), (False, False)]
