"""What a person is told while a run goes on, and at its end."""

from __future__ import annotations

import pytest

from trivet.batch.progress import Reporter
from trivet.batch.tally import SCORES, Tally
from trivet.data.logs.log import Log
from trivet.records import Evaluation, FailedEvaluation


def verdict(faithfulness: float | None, relevance: float) -> Evaluation:
    return Evaluation(
        id=None,
        faithfulness=faithfulness,
        supported_share=None,
        relevance=relevance,
        utilization=None,
        completeness=None,
        adherent=None,
        unsupported=(),
        sentences=(),
        contexts=(),
        windows=2,
        window_size=512,
        cut_question_tokens=0,
        response_chunks=1,
        replaced_characters=0,
    )


def tally() -> Tally:
    counted = Tally()
    counted.add([verdict(0.5, 0.25), verdict(None, 0.75), verdict(1.0, 0.5)])
    codes = ("too_long", "too_long", "bad_field")
    counted.add(FailedEvaluation(None, code, "m") for code in codes)
    return counted


def test_n_and_failures_stand_beside_every_mean() -> None:
    assert tally().lines() == [
        "3 judged, 3 failed (too_long 2, bad_field 1)",
        "faithfulness 0.750 (n 2, 3 failed)",
        "relevance 0.500 (n 3, 3 failed)",
    ]
    assert Tally().lines() == ["0 judged, 0 failed"]
    assert Tally().mean("faithfulness") is None


def test_a_tally_is_read_back_as_it_was_and_shards_add_up() -> None:
    one = tally()
    assert Tally.from_dict(one.to_dict()) == one
    two = Tally.total([one, tally()])
    assert (two.judged, two.failed, two.windows) == (6, 6, 12)
    assert [two.mean(score) for score in SCORES] == [one.mean(score) for score in SCORES]
    with pytest.raises(KeyError):
        Tally.from_dict({})


class HalfRead(Log):
    """A log of which one can say how far it was read."""

    def __init__(self) -> None:
        self.share = 0.5

    def share_read(self) -> float | None:
        return self.share


def test_a_line_says_how_fast_and_how_long() -> None:
    told: list[str] = []
    now = [100.0]
    log = HalfRead()
    report = Reporter(log, told.append, 10.0, clock=lambda: now[0])
    counted = tally()
    now[0] = 130.0
    report(counted, 1000)  # what was there before the first block is no speed
    assert told == []
    now[0], log.share, counted.windows = 150.0, 0.75, counted.windows + 60
    report(counted, 1010)
    now[0] = 155.0
    report(counted, 1020)
    assert told == [
        "1010 rows, 3 failed | 0.5 rows/s | 3.0 windows/s | faithfulness 0.750 | relevance 0.500 | "
        "75%, 0:20 left"
    ]
