"""Which traces are kept, when they are complete, and what is dropped."""

from __future__ import annotations

import random

import pytest

from trivet.data.traces.examples import Document, TraceSpan
from trivet.serve.http.otlp import TraceBuffer


def span(trace: str, name: str = "a", parent: str | None = None, text: str = "") -> TraceSpan:
    return TraceSpan(trace, name, parent, "chain", documents=(Document(text),))


def test_a_trace_is_complete_when_nothing_follows_its_root() -> None:
    buffer = TraceBuffer(settle_seconds=2, longest_seconds=60)
    child, root = span("1", "b", "a"), span("1")
    buffer.add([child], now=0)
    assert buffer.take(now=59) == []
    buffer.add([root], now=59)
    assert buffer.take(now=60) == []
    assert buffer.take(now=61) == [[child, root]]
    assert buffer.take(now=1000) == []


def test_a_trace_without_a_root_waits_longer() -> None:
    buffer = TraceBuffer(settle_seconds=2, longest_seconds=60)
    orphan = span("1", "b", "elsewhere")
    buffer.add([orphan], now=0)
    assert buffer.take(now=59) == []
    assert buffer.take(now=60) == [[orphan]]


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_the_sample_is_chosen_by_the_id_of_the_trace(share: float) -> None:
    numbers = random.Random(3)
    traces = [f"{numbers.getrandbits(128):032x}" for _ in range(2000)]
    kept = []
    for _ in range(2):
        buffer = TraceBuffer(share)
        buffer.add(map(span, traces), now=0)
        kept.append({spans[0].trace for spans in buffer.take(now=9)})
    assert kept[0] == kept[1]
    assert abs(len(kept[0]) / 2000 - share) < 0.03


def test_the_oldest_traces_are_dropped_for_want_of_room() -> None:
    buffer = TraceBuffer(most_characters=1000)
    assert buffer.add([span(f"{number:x}", text="x" * 200) for number in range(3)], now=0) == 1
    assert [spans[0].trace for spans in buffer.take(now=9)] == ["1", "2"]
    assert buffer.add([span("4", text="x" * 600)], now=10) == 0, "the room is free again"
