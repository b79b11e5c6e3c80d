"""Thresholds that the rows justify, and messages for rows that justify none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measures.verdicts import dev_scores
from trivet.bundle.info import Thresholds
from trivet.records import LabelledExample, Labels, RagExample, Span
from trivet.settings import THRESHOLD_NAMES
from trivet.thresholds.choose import (
    ChosenThresholds,
    Judged,
    UseThreshold,
    choose_or_keep,
    justified_thresholds,
    named_thresholds,
    same_share,
)
from trivet.thresholds.columns import DevScores, ScoredItems
from trivet.thresholds.report import lines

FloatArray = npt.NDArray[np.float64]


def scores(count: int, tell_apart: float) -> list[DevScores]:
    """Make responses of one sentence of one word, in groups of two; half are unsupported."""
    random = np.random.default_rng(3)
    made = []
    for number in range(count):
        wrong = number % 4 < 2
        support = float(np.clip(0.5 + random.normal() * 0.15 - tell_apart * (wrong - 0.5), 0, 0.99))
        unsupported, word = (Span(0, 4),) if wrong else (), [(0, 4, support)]
        group = f"group {number // 2}"
        made.append(dev_scores("word", unsupported, not wrong, word, word, group))
    return made


def chosen(rows: list[DevScores]) -> dict[str, UseThreshold]:
    return {use.use: use for use in justified_thresholds(rows, None)}


def test_rows_that_are_told_apart_give_a_threshold_for_each_use() -> None:
    thresholds = chosen(scores(80, tell_apart=0.6))
    assert set(thresholds) == {"sentence", "span"}
    for use in thresholds.values():
        assert use.threshold is not None
        assert use.f1 is not None and use.f1 > 0.85
        assert use.auroc is not None and use.low is not None and use.low > 0.5
        assert f"{use.use}: threshold 0." in use.words()


def test_rows_that_are_not_told_apart_give_none_and_say_so() -> None:
    for use in chosen(scores(80, tell_apart=0.0)).values():
        assert use.threshold is None and use.auroc is not None
        assert "no clean separation, AUROC" in use.words()


@given(st.lists(st.floats(0, 1), min_size=1, unique=True), st.floats(0, 1))
def test_a_kept_threshold_flags_as_many_as_before(drawn: list[float], threshold: float) -> None:
    support = np.array(drawn)
    nothing = np.zeros(len(support))

    def column(values: FloatArray) -> ScoredItems:
        order = np.arange(len(values))
        return ScoredItems(values, nothing, nothing, order, len(values), order, values)

    squeezed = support * 0.5 + 0.2
    if len(np.unique(squeezed)) < len(squeezed):
        return
    moved = same_share(column(support), threshold, column(squeezed))
    assert (squeezed < moved).sum() == (support < threshold).sum()


def decided(rows: list[DevScores], rate: float | None) -> ChosenThresholds:
    return choose_or_keep(Thresholds(0.5, 0.5), rows, rows, (), rate)


def test_a_bound_is_given_where_the_rate_of_false_alarms_chose_the_threshold() -> None:
    rows = scores(80, tell_apart=0.6)
    decision = decided(rows, 0.1)
    (bound,) = decision.bounds
    assert (bound.data, bound.documents) == ("s", 20)
    assert bound.bound == pytest.approx((20 * bound.rate + 1) / 21)
    assert bound.bound <= 0.1 and bound.words() in lines((), decision)
    other = decided(rows, None)
    assert other.uses[0].threshold is not None
    assert other.bounds == () and "expected" not in "".join(lines((), other))
    kept = decided(scores(80, tell_apart=0.0), 0.1)
    assert kept.uses[0].threshold is None and kept.bounds == ()


def test_named_thresholds_keep_their_rates_in_each_set() -> None:
    random = np.random.default_rng(5)

    def judged(name: str, shift: float, count: int = 200) -> Judged:
        wrong = [number % 2 == 1 for number in range(count)]
        support = np.clip(random.normal(0.7 + shift - 0.3 * np.array(wrong), 0.15), 0, 1)
        rows = [
            LabelledExample(RagExample("", ("c",), "r"), Labels(adherent=not bad), name, f"g{n}")
            for n, bad in enumerate(wrong)
        ]
        return Judged(rows, support)

    sets = [judged("a", 0.0), judged("b", 0.1)]
    named = named_thresholds(sets, 0.15, [judged("apart", -0.4)])
    assert named["careful"] < named["balanced"] < named["strict"]
    for name, rate in zip(THRESHOLD_NAMES, (0.05, 0.15, 0.25), strict=True):
        for answers in sets:
            good = np.array([row.labels.adherent is True for row in answers.rows])
            assert (answers.support[good] < named[name]).mean() <= rate
    assert named_thresholds([judged("few", 0.0, 4)], 0.15) == {}
