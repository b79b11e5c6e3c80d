"""Progress lines during a run and its summary."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.measures.verdicts import verdict
from trivet.batch.progress import Reporter
from trivet.batch.tally import SCORES, Tally
from trivet.data.logs.log import Log
from trivet.records import FailedEvaluation


def tally() -> Tally:
    counted = Tally()
    for faithfulness, relevance in ((0.5, 0.25), (None, 0.75), (1.0, 0.5)):
        one = verdict(faithfulness, (), relevance, utilization=None, completeness=None)
        counted.add([replace(one, windows=2)])
    codes = ("too_long", "too_long", "bad_field")
    counted.add(FailedEvaluation(None, code, "m") for code in codes)
    return counted


def test_n_and_failures_stand_beside_every_mean() -> None:
    assert tally().lines() == [
        "3 evaluated, 3 failed (too_long 2, bad_field 1)",
        "faithfulness 0.750 (n 2, 3 failed)",
        "supported_share 1.000 (n 3, 3 failed)",
        "relevance 0.500 (n 3, 3 failed)",
    ]
    assert Tally().lines() == ["0 evaluated, 0 failed"]
    assert Tally().mean("faithfulness") is None


def test_a_tally_is_read_back_as_it_was_and_shards_add_up() -> None:
    one = tally()
    assert Tally.from_dict(one.to_dict()) == one
    two = Tally.total([one, tally()])
    assert (two.evaluated, two.failed, two.windows) == (6, 6, 12)
    assert [two.mean(score) for score in SCORES] == [one.mean(score) for score in SCORES]
    with pytest.raises(KeyError):
        Tally.from_dict({})


def test_a_line_says_how_fast_and_how_long() -> None:
    told: list[str] = []
    now, share = [100.0], [0.5]
    log = cast(Log, SimpleNamespace(share_read=lambda: share[0]))
    report = Reporter(log, told.append, 10.0, clock=lambda: now[0])
    counted = tally()
    now[0] = 130.0
    report(counted, 1000)  # what was there before the first block is no speed
    assert told == []
    now[0], share[0], counted.windows = 150.0, 0.75, counted.windows + 60
    report(counted, 1010)
    now[0] = 155.0
    report(counted, 1020)
    assert told == [
        "1010 rows, 3 failed | 0.5 rows/s | 3.0 windows/s | faithfulness 0.750 | relevance 0.500 | "
        "75%, 0:20 left"
    ]
