"""Progress lines during a run and its summary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.measures.verdicts import verdict
from trivet.records import FailedEvaluation, MarkedSpan
from trivet.report.run_tally import SCORES, RunTally


def tally() -> RunTally:
    counted = RunTally()
    for faithfulness, relevance in ((0.5, 0.25), (None, 0.75), (1.0, 0.5)):
        result = verdict(faithfulness, (), relevance, utilization=None, completeness=0.5)
        adherent = None if faithfulness is None else faithfulness > 0.6
        about: dict[str, Any] = {
            "adherent": adherent,
            "threshold": 0.6,
            "abstains": faithfulness == 1.0,
        }
        counted.add([replace(result, windows=2, id=f"q{counted.evaluated}", **about)])
    codes = ("too_long", "too_long", "bad_field")
    counted.add(FailedEvaluation(None, code, "m") for code in codes)
    return counted


def test_a_tally_is_read_back_as_it_was_and_shards_add_up() -> None:
    counts = tally()
    assert RunTally.from_dict(counts.to_dict()) == counts
    two = RunTally.total([counts, tally()])
    assert (two.evaluated, two.failed, two.windows) == (6, 6, 12)
    assert [two.mean(score) for score in SCORES] == [counts.mean(score) for score in SCORES]
    assert two.lines()[0] == "2 unsupported, 2 abstain, 2 without a response, 6 failed"
    assert two.lines()[-1].startswith("means: ") and "completeness" not in two.lines()[-1]
    with pytest.raises(KeyError):
        RunTally.from_dict({})


def test_each_row_is_counted_once_in_the_first_line() -> None:
    span = MarkedSpan(0, 1, "F", 0.1, "near_threshold")
    counted, kinds = RunTally(), ((True, ()), (True, (span,)), (False, (span,)))
    for adherent, to_check in kinds:
        counted.add([replace(verdict(0.7), adherent=adherent, to_check=to_check, threshold=0.5)])
    counted.add([FailedEvaluation(None, "window", "m")])
    assert counted.lines()[0] == "1 supported, 1 unsupported, 1 to check, 1 failed"
    assert counted.share("to_check") == pytest.approx(1 / 3)
