"""Progress lines during a run and its summary."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.measures.verdicts import verdict
from trivet.batch.progress import Reporter, at_times
from trivet.logs.log import Log
from trivet.records import FailedEvaluation
from trivet.report.run_tally import SCORES, RunTally


def tally() -> RunTally:
    counted = RunTally()
    for faithfulness, relevance in ((0.5, 0.25), (None, 0.75), (1.0, 0.5)):
        one = verdict(faithfulness, (), relevance, utilization=None, completeness=None)
        adherent = None if faithfulness is None else faithfulness > 0.6
        about: dict[str, Any] = {
            "adherent": adherent,
            "threshold": 0.6,
            "abstains": faithfulness == 1.0,
        }
        counted.add([replace(one, windows=2, id=f"q{counted.evaluated}", **about)])
    codes = ("too_long", "too_long", "bad_field")
    counted.add(FailedEvaluation(None, code, "m") for code in codes)
    return counted


def test_the_summary_begins_with_the_worst_answers_and_says_what_has_no_score() -> None:
    assert tally().lines() == [
        "1 of 2 answers unsupported: q0",
        "1 of 2 answers abstain (50%)",
        "1 row without a response: relevance alone",
        "3 of 6 rows failed: too_long 2, bad_field 1",
        "means: faithfulness 0.750, supported_share 1.000, relevance 0.500",
    ]
    assert RunTally().lines() == ["0 rows evaluated"]
    assert RunTally().mean("faithfulness") is None


def test_a_tally_is_read_back_as_it_was_and_shards_add_up() -> None:
    one = tally()
    assert RunTally.from_dict(one.to_dict()) == one
    two = RunTally.total([one, tally()])
    assert (two.evaluated, two.failed, two.windows) == (6, 6, 12)
    assert [two.mean(score) for score in SCORES] == [one.mean(score) for score in SCORES]
    assert two.lines()[0] == "2 of 4 answers unsupported: q0, q0"
    with pytest.raises(KeyError):
        RunTally.from_dict({})


def test_the_five_least_faithful_are_named() -> None:
    counted = RunTally()
    for number in range(7):
        one = verdict((7 - number) / 10, (), 0.5)
        counted.add([replace(one, id=f"q{number}", adherent=False, threshold=0.9)])
    assert counted.lines()[0] == "7 of 7 answers unsupported: q6, q5, q4, q3, q2 ..."


def test_a_line_says_how_fast_and_how_long() -> None:
    told: list[str] = []
    now, share = [100.0], [0.5]
    log = cast(Log, SimpleNamespace(share_read=lambda: share[0]))
    clock = lambda: now[0]  # noqa: E731
    report = Reporter(log, at_times(told.append, 10.0, clock), clock)
    counted = tally()
    now[0] = 130.0
    report(counted)  # what was there before the first block is no speed
    assert told == []
    now[0], share[0], counted.windows = 150.0, 0.75, counted.windows + 60
    counted.evaluated += 10
    report(counted)
    now[0] = 155.0
    report(counted)
    assert told == [
        "16 rows, 3 failed | 0.5 rows/s | 3.0 windows/s | faithfulness 0.750 | relevance 0.500 | "
        "75%, 0:20 left"
    ]
