"""Scores that `trivet test` writes into a bundle, and the older ones that they replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from trivet.bundle.bundle import read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.info import UNBOUNDED, AlarmsInfo
from trivet.bundle.model_card import render_card
from trivet.bundle.scores import error_rates, keep_scores
from trivet.measures.figures import ErrorRates, Figure
from trivet.measures.rule_sets import ANSWERS


def figure(measure: str, value: float, generator: str | None = None) -> Figure:
    return Figure(measure, "made/up", value, 0.1, 0.9, 20, 5, 10, 0, generator=generator)


def test_the_main_figures_are_kept_and_replace_older_ones_of_the_same_rows(
    weights_bundle: Path,
) -> None:
    first = [figure("hallucination_auroc", 0.6), figure("relevance_rmse", 0.2)]
    keep_scores(read_bundle(weights_bundle), first, split="dev", command="one", precision="int8")
    keep_scores(read_bundle(weights_bundle), first, split="dev", command="one", precision="fp32")
    again = [
        figure("hallucination_auroc", 0.7),
        figure("hallucination_auroc", 0.8, generator="one of several"),
        figure("support_ece", 0.3),
    ]
    keep_scores(read_bundle(weights_bundle), again, split="dev", command="two", precision="int8")
    scores = read_bundle(weights_bundle).info.scores
    assert [(score.precision, score.measure, score.value) for score in scores] == [
        ("fp32", "hallucination_auroc", 0.6),
        ("fp32", "relevance_rmse", 0.2),
        ("int8", "hallucination_auroc", 0.7),
    ]
    assert "`two`" in (weights_bundle / "README.md").read_text(encoding="utf-8")


def test_errors_are_those_at_the_default_threshold() -> None:
    alarms = AlarmsInfo(
        data="made/up", faithful=15, false_alarms=(1, 3, 4), hallucinated=5, found=(2, 4, 5)
    )
    assert error_rates([alarms]) == [
        ErrorRates("made/up", "dev", supported=15, flagged=3, unsupported=5, finds=4)
    ]


@pytest.mark.parametrize("name", ["QA", *UNBOUNDED])
def test_the_card_says_which_false_alarms_do_not_bound_the_thresholds(name: str) -> None:
    assert name in ANSWERS
    none = (0, 0, 0)
    alarms = AlarmsInfo(data=name, faithful=1, false_alarms=none, hallucinated=1, found=none)
    card = render_card(read_bundle(EMBEDDED_BUNDLE).info.model_copy(update={"alarms": (alarms,)}))
    sentence = f"False alarms of {name} do not bound the thresholds: most are claims that"
    assert (sentence in card) is (name in UNBOUNDED)
