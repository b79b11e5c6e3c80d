"""Verdicts beside labels in a terminal: a threshold is advised only above chance."""

from __future__ import annotations

import pytest
from rich.console import Group

from tests.report.test_terminal import printed
from trivet.measures.cascade import CascadeStep, Decided
from trivet.measures.figures import Figure
from trivet.measures.label_check import AtThreshold, LabelCheck
from trivet.report.check_tables import render_cascade, render_label_check

NAMES = ("used", "rate", "best_f1")
USED, RATE, BEST = (AtThreshold(name, 0.6, 3, 1, 1, 9) for name in NAMES)
CHECK = LabelCheck(USED, RATE, BEST, 0.2, documents=10, no_rate=None, errors=())


def decided(threshold: float | None) -> Decided:
    return Decided(threshold, 5, 0, 0.5, None)


STEP = CascadeStep(0.9, passed=decided(0.8), flagged=decided(0.3), left=decided(None))


@pytest.mark.parametrize(
    ("low", "advised"), [(None, False), (0.4, False), (0.5049, False), (0.5051, True)]
)
def test_no_threshold_is_advised_where_the_interval_that_is_shown_reaches_chance(
    low: float | None, advised: bool
) -> None:
    high = None if low is None else 0.9
    auroc = Figure("hallucination_auroc", "mine", 0.7, low, high, 14, 4, 10, 0)
    check = render_label_check(CHECK, auroc, None, "gold", {("yes", True): 10})
    text = printed(Group(check, render_cascade([STEP], auroc)))
    lines = ("at most 20 % false alarms", "best F1", "LOG --threshold 0.6", "LOG --threshold 0.3")
    assert [words in text for words in lines] == [advised] * 4
    assert text.count("no threshold is advised") == (not advised)
    assert "of these verdicts" in text
