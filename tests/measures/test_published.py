"""Published scores of other judges: the same rows for both, by hand and as a mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.measures.verdicts import FAILED, predicted, verdict
from trivet.measures.figures import Figure
from trivet.measures.predictions import Prediction
from trivet.measures.published import measure_published
from trivet.records import Labels, PublishedScores


def row(
    group: str,
    adherent: bool,
    ours: float,
    theirs: float | None,
    source: str = "ragbench/a",
    judge: str = "J",
) -> Prediction:
    """Return a row whose true relevance is 0, judged alike for faithfulness and relevance."""
    made = predicted(
        Labels(adherent=adherent, relevance=0.0), verdict(ours, (), ours), source, group
    )
    scores = PublishedScores(judge, theirs, theirs, None)
    return replace(made, example=replace(made.example, published=(scores,)))


def named(figures: list[Figure]) -> dict[tuple[str, str | None, str], Figure]:
    keys = {(figure.source, figure.judge, figure.measure): figure for figure in figures}
    assert len(keys) == len(figures)
    return keys


ROWS = [
    row("1", False, 0.2, 0.0),
    row("2", False, 0.6, 1.0),
    row("3", True, 0.9, 1.0),
    row("4", True, 0.5, 1.0),
]


def test_both_are_measured_on_the_rows_that_the_judge_scored() -> None:
    others = [
        row("5", False, 0.0, None),  # the judge has no score
        predicted(Labels(adherent=False), verdict(0.0), "ragbench/a", "6"),  # no judge at all
        replace(row("7", False, 0.0, 0.0), evaluation=FAILED),
    ]
    figures = named(measure_published([*others, *ROWS], resamples=50))
    value = {measure: figure.value for (_, _, measure), figure in figures.items()}
    assert value == {
        # Pairs of a hallucinated and an adherent row: .2 < .9, .2 < .5, .6 < .9 and not .6 < .5.
        "hallucination_auroc_of_bundle": pytest.approx(3 / 4),
        # 0 < 1 twice, and two ties.
        "hallucination_auroc": pytest.approx(3 / 4),
        "hallucination_auroc_difference": pytest.approx(0.0),
        "relevance_rmse_of_bundle": pytest.approx((1.46 / 4) ** 0.5),
        "relevance_rmse": pytest.approx((3 / 4) ** 0.5),
        "relevance_rmse_difference": pytest.approx((1.46 / 4) ** 0.5 - (3 / 4) ** 0.5),
    }
    figure = figures["ragbench/a", "J", "hallucination_auroc"]
    assert (figure.n, figure.positives, figure.groups, figure.failed) == (4, 2, 4, 1)
    assert figures["ragbench/a", "J", "relevance_rmse"].positives is None


def test_judges_have_rows_of_their_own_and_sets_a_mean() -> None:
    second = [row(n, n == "1", 0.5, 0.5, "ragbench/b", "K") for n in "12"]
    both = [row(n, n == "1", 0.5, float(n == "1"), "ragbench/b") for n in "12"]
    one_class = [row("9", True, 0.5, 0.5, "ragbench/c")]
    figures = named(measure_published([*ROWS, *second, *both, *one_class], resamples=20))
    assert figures["ragbench/b", "J", "hallucination_auroc"].value == 1.0
    mean = figures["ragbench/mean", "J", "hallucination_auroc"]
    assert mean.value == pytest.approx((3 / 4 + 1) / 2)
    assert mean.n == 7
    assert figures["ragbench/mean", "J", "hallucination_auroc_difference"].value == pytest.approx(
        -0.25
    )
    undefined = figures["ragbench/c", "J", "hallucination_auroc"]
    assert (undefined.value, undefined.note) == (
        None,
        "undefined: needs hallucinated and adherent rows",
    )
    assert figures["ragbench/b", "K", "hallucination_auroc"].n == 2
    assert ("ragbench/mean", "K", "hallucination_auroc") not in figures


def test_rows_without_a_judge_have_no_figures() -> None:
    assert measure_published([predicted(Labels(adherent=True), verdict(0.5))]) == []
