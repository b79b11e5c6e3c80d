"""The threshold of single sentences keeps the rate of false halts, and finds what it can."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.bundle.schema import Thresholds
from trivet.evaluation.evaluator import Evaluator
from trivet.measures.false_alarms import Alarms
from trivet.records import LabelledExample, Labels, RagExample, Span
from trivet.thresholds.choose import choose_or_keep
from trivet.thresholds.report import lines
from trivet.thresholds.streams import (
    FALSE_HALTS,
    Streamed,
    choose_halt,
    choosing,
    read_streams,
)


def answer(
    weakest: float, adherent: bool | None, group: str = "g", source: str = "s/a"
) -> Streamed:
    labels = Labels(adherent=adherent)
    return Streamed(LabelledExample(RagExample("", ("c",), "r"), labels, source, group), weakest)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=120), st.integers(1, 4))
def test_at_most_one_in_twenty_faithful_answers_halts(drawn: list[float], together: int) -> None:
    answers = [answer(value, True, str(n // together)) for n, value in enumerate(drawn)]
    found = choose_halt([*answers, answer(0.0, False), answer(0.0, None)])
    documents = len({one.example.group for one in answers})
    assert (found.threshold is None) is (documents < 19)
    if found.threshold is not None:
        (data,) = found.data
        assert data.false_alarms == sum(value < found.threshold for value in drawn)
        assert data.false_alarms <= FALSE_HALTS * len(drawn)
        assert (data.faithful, data.hallucinated) == (len(drawn), 1)


def test_it_is_the_highest_threshold_that_keeps_the_rate() -> None:
    answers = [answer(n / 100, True, str(n)) for n in range(100)]
    found = choose_halt([*answers, answer(0.03, False), answer(0.5, False)])
    # (4 + 1) / 101 is below 5 % for a new document, (5 + 1) / 101 is not.
    assert found.threshold == 0.04
    assert found.data == (Alarms("s", 100, 4, 2, 1),)
    assert "4 false alarms of 100 faithful responses, 1 of 2 hallucinated ones" in found.lines()[1]


def test_every_data_set_with_enough_documents_keeps_it() -> None:
    high = [answer(0.5 + n / 100, True, str(n)) for n in range(40)]
    low = [answer(n / 100, True, str(n), "other") for n in range(40)]
    few = [answer(0.0, True, str(n), "few") for n in range(5)]
    assert choose_halt(high + low + few).threshold == choose_halt(low).threshold
    found = choose_halt(few)
    assert found.threshold is None and "19 documents" in found.lines()[0]


ROWS = [
    LabelledExample(
        RagExample("When?", ("The mill was built in 1817. It is made of stone.",), text),
        Labels(unsupported=() if right else (Span(0, 3),), adherent=right),
        "s",
        str(number),
    )
    for number, (text, right) in enumerate(
        [("The mill was built in 1817. It is of stone.", True), ("Sure! I don't know.", True)] * 10
        + [("It was built in 1994 by a wizard of the moon.", False)] * 4
    )
]


@pytest.mark.parametrize("prefixes", [(), ("s",)])
def test_answers_are_read_as_a_stream_reads_them(
    embedded: Evaluator, prefixes: tuple[str, ...]
) -> None:
    streams = read_streams(embedded, choosing(ROWS, prefixes))
    for row, one in zip(ROWS, streams, strict=True):
        stream = embedded.stream(row.example.question, row.example.contexts)
        events = stream.feed(row.example.response) + stream.flush()
        supports = [e.support for e in events if e.support is not None and not e.abstains]
        assert one.weakest == pytest.approx(min(supports, default=1.0), abs=1e-5)
    assert choosing(ROWS, ("other",)) == []


def test_thresholds_keep_that_of_single_sentences_or_drop_it() -> None:
    from tests.thresholds.test_choose import scores

    rows = scores(40, 0.5)
    old = Thresholds(sentence=0.5, span=0.5, answered=0.9, halt=0.3)
    kept = choose_or_keep(old, rows, rows, (), 0.1)
    assert kept.thresholds is not None and kept.halt is None
    assert (kept.thresholds.halt, kept.thresholds.answered) == (0.3, 0.9)
    streams = [answer(n / 100, True, str(n)) for n in range(100)]
    chosen = choose_or_keep(old, rows, rows, (), 0.1, streams)
    assert chosen.thresholds is not None and chosen.thresholds.halt == 0.04
    assert any("threshold 0.0400 for single sentences" in line for line in lines((), chosen))
    # After another support a threshold that nothing chose again means nothing.
    moved = choose_or_keep(old, rows, scores(40, 0.1), (), 0.1)
    assert moved.thresholds is not None and moved.thresholds.halt is None
