"""Merging keeps every character and no overlap."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from trivet.data.labelled.label_spans import merge_overlapping, merge_overlapping_contexts
from trivet.records import ContextSpan, Span

spans = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 8)).map(lambda p: Span(p[0], p[0] + p[1]))
)


def characters(given: tuple[Span, ...] | list[Span]) -> set[int]:
    return {place for span in given for place in range(span.start, span.end)}


@given(spans)
def test_merged_spans_hold_the_same_characters_in_order_and_once(found: list[Span]) -> None:
    merged = merge_overlapping(found)
    assert characters(merged) == characters(found)
    assert all(left.end <= right.start for left, right in itertools.pairwise(merged))
    assert merge_overlapping(merged) == merged


def test_neighbours_stay_apart() -> None:
    assert merge_overlapping([Span(3, 5), Span(0, 3)]) == (Span(0, 3), Span(3, 5))


@given(spans, spans)
def test_contexts_are_merged_each_alone(first: list[Span], second: list[Span]) -> None:
    both = [ContextSpan(1, one.start, one.end) for one in second]
    both += [ContextSpan(0, one.start, one.end) for one in first]
    expected = [ContextSpan(0, one.start, one.end) for one in merge_overlapping(first)]
    expected += [ContextSpan(1, one.start, one.end) for one in merge_overlapping(second)]
    assert merge_overlapping_contexts(both) == tuple(expected)
