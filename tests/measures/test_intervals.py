"""Weighted statistics against other people's code, and laws of the bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics
from torchmetrics.functional.classification import binary_calibration_error

from trivet.measures import intervals
from trivet.measures.curves import FloatArray
from trivet.measures.intervals import Draws, Estimate, Statistic

# Few distinct scores, so that ties are the rule.
rows = st.lists(
    st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 3)), min_size=1, max_size=30
)


def weighted(statistic: Statistic, weights: FloatArray) -> float:
    return float(statistic(weights[None, :])[0])


def columns(drawn: list[tuple[int, bool, int]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    scores, positive, weights = zip(*drawn, strict=True)
    return np.array(scores) / 10, np.array(positive), np.array(weights, dtype=float)


@given(rows)
def test_auroc_and_best_f1_are_scikit_learns_on_the_repeated_rows(
    drawn: list[tuple[int, bool, int]],
) -> None:
    scores, positive, weights = columns(drawn)
    area, best = (
        weighted(of(scores, positive.astype(bool)), weights)
        for of in (intervals.auroc, intervals.best_f1)
    )
    repeated = np.repeat(np.arange(len(drawn)), weights.astype(int))
    classes = set(positive[repeated].tolist())
    assert math.isnan(area) == (len(classes) < 2)
    assert math.isnan(best) == (True not in classes)
    if len(classes) == 2:
        assert area == pytest.approx(metrics.roc_auc_score(positive[repeated], scores[repeated]))
    if True in classes:
        precision, recall, _ = metrics.precision_recall_curve(positive[repeated], scores[repeated])
        with np.errstate(invalid="ignore"):
            f1 = 2 * precision * recall / (precision + recall)
        assert best == pytest.approx(np.nanmax(f1))


def test_a_ratio_without_what_it_needs_is_undefined_and_not_zero() -> None:
    gold, flagged = np.zeros(3), np.ones(3)
    assert math.isnan(weighted(intervals.ratio(2 * gold, flagged + gold, gold), np.ones(3)))
    assert math.isnan(weighted(intervals.ratio(gold, gold, gold), np.ones(3)))


def test_calibration_error_is_torchmetrics() -> None:
    draw = np.random.default_rng(2)
    probs = draw.random(200)
    positive = draw.random(200) < probs**2
    row = np.sort(draw.integers(0, 40, 200))
    probabilities, truths = torch.from_numpy(probs), torch.from_numpy(positive.astype(int))
    expected = binary_calibration_error(probabilities, truths, n_bins=15)
    value = weighted(intervals.calibration_error(row, probs, positive, 40), np.ones(40))
    assert value == pytest.approx(float(expected), abs=1e-6)


def squares(n: int) -> tuple[Statistic, FloatArray]:
    errors = np.random.default_rng(3).normal(size=n)
    return intervals.root_mean_square(errors), errors


def test_the_interval_of_single_rows_agrees_with_scipys_bootstrap() -> None:
    statistic, errors = squares(300)
    draws = Draws([f"g{i}" for i in range(300)], "s", 2000, 0)
    interval = draws.estimate(statistic, np.arange(300)).interval()
    other = stats.bootstrap(
        (errors,),
        lambda values, axis: np.sqrt((values**2).mean(axis=axis)),
        n_resamples=2000,
        method="percentile",
        random_state=np.random.default_rng(4),
    ).confidence_interval
    assert interval == pytest.approx((other.low, other.high), abs=0.012)


def test_groups_are_drawn_whole() -> None:
    # Ten rows a group, all alike: the interval must be that of 30 groups, not of 300 rows.
    errors = np.repeat(np.random.default_rng(5).random(30), 10)
    statistic = intervals.root_mean_square(errors)
    by_group = Draws([f"g{i // 10}" for i in range(300)], "s", 1000, 0)
    by_row = Draws([f"g{i}" for i in range(300)], "s", 1000, 0)
    every = np.arange(300)
    wide, narrow = (draws.estimate(statistic, every).interval() for draws in (by_group, by_row))
    assert wide is not None and narrow is not None
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


def test_seed_and_name_decide_the_resamples() -> None:
    statistic, _ = squares(20)
    groups = [f"g{i}" for i in range(20)]

    def resampled(name: str, seed: int) -> FloatArray:
        return Draws(groups, name, 50, seed).estimate(statistic, np.arange(20)).resampled

    assert np.array_equal(resampled("s", 0), resampled("s", 0))
    assert not np.array_equal(resampled("s", 0), resampled("s", 1))
    assert not np.array_equal(resampled("s", 0), resampled("t", 0))


def test_rows_of_one_group_have_a_value_and_no_interval_and_no_rows_neither() -> None:
    statistic, errors = squares(5)
    estimate = Draws(["g"] * 5, "s", 50, 0).estimate(statistic, np.arange(5))
    assert estimate.value == pytest.approx(math.sqrt((errors**2).mean()))
    assert estimate.interval() is None
    estimate = Draws([], "s", 50, 0).estimate(squares(0)[0], np.arange(0))
    assert (estimate.value, estimate.interval()) == (None, None)


def test_one_positive_is_too_few_for_an_interval_and_many_are_not() -> None:
    draws = Draws([f"g{i}" for i in range(50)], "s", 500, 0)
    scores = np.random.default_rng(6).random(50)
    lone = draws.estimate(intervals.auroc(scores, np.arange(50) < 1), np.arange(50))
    many = draws.estimate(intervals.auroc(scores, np.arange(50) < 20), np.arange(50))
    assert lone.value is not None and lone.interval() is None
    assert lone.defined_share() == pytest.approx(1 - math.exp(-1), abs=0.08)
    assert many.interval() is not None


def test_an_average_is_resampled_set_by_set() -> None:
    first = Estimate(0.2, np.array([0.1, 0.3]))
    second = Estimate(0.6, np.array([0.5, 0.9]))
    nothing = Estimate(None, np.array([np.nan, np.nan]))
    mean = intervals.average([first, nothing, second])
    assert mean.value == pytest.approx(0.4)
    assert mean.resampled == pytest.approx([0.3, 0.6])
    empty = intervals.average([nothing])
    assert (empty.value, empty.interval()) == (None, None)
    # A set that cannot be resampled is constant.
    still = Estimate(0.4, np.array([np.nan, np.nan]))
    assert intervals.average([still, second]).resampled == pytest.approx([0.45, 0.65])
    assert intervals.average([still, still]).value == pytest.approx(0.4)
    assert intervals.average([still, still]).interval() is None


@given(rows, st.sampled_from([0.5, 0.9, 0.95]))
def test_false_alarms_at_a_recall_are_on_scikit_learns_curve(
    drawn: list[tuple[int, bool, int]], recall: float
) -> None:
    scores, positive, weights = columns(drawn)
    repeated = np.repeat(np.arange(len(drawn)), weights.astype(int))
    truth = positive.astype(bool)
    alarms = weighted(intervals.false_alarms_at_recall(scores, truth, recall), weights)
    assert math.isnan(alarms) == (len(set(truth[repeated].tolist())) < 2)
    if not math.isnan(alarms):
        wrong, right, _ = metrics.roc_curve(
            truth[repeated], scores[repeated], drop_intermediate=False
        )
        assert alarms == pytest.approx(wrong[right >= recall - 1e-9].min())
