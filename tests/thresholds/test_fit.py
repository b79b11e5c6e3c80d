"""Fits against known truths, joined as in the model."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit as sigmoid
from scipy.special import logit

from trivet.errors import DataError
from trivet.model.aggregate import two_weakest
from trivet.thresholds.cross_fitting import cross_fitted, halves, head_report, parts
from trivet.thresholds.fit import LinearMap, fit, probabilities
from trivet.thresholds.joining import HeadLogits

N = 20_000
NAN = float("nan")


def head(
    logits: npt.ArrayLike, truth: npt.ArrayLike, weight: npt.ArrayLike | None = None
) -> HeadLogits:
    """Build a head of which every example has one sentence of one token."""
    values, known = np.asarray(logits, float), np.asarray(truth, float)
    numbers = np.arange(len(known))
    return HeadLogits(
        logits=values,
        token=None,
        sentence=numbers,
        row=numbers,
        truth=known,
        verdict=np.full_like(known, NAN),
        weight=np.ones_like(known) if weight is None else np.asarray(weight, float),
    )


def drawn(probs: npt.NDArray[np.float64], seed: int = 1) -> npt.NDArray[np.float64]:
    return (np.random.default_rng(seed).random(len(probs)) < probs).astype(float)


def fitted(head: HeadLogits, **options: Any) -> LinearMap:
    return fit(head, what="relevance", **options)


def test_a_fit_finds_the_scale_and_shift_that_made_the_marks() -> None:
    logits = np.random.default_rng(0).normal(size=N) * 2
    linear_map = fitted(head(logits, drawn(sigmoid(0.5 * logits - 1))))
    assert linear_map.scale == pytest.approx(0.5, abs=0.03)
    assert linear_map.shift == pytest.approx(-1.0, abs=0.06)


def test_a_fit_weighs_the_overlap_that_made_the_marks_where_it_is_asked_to() -> None:
    random = np.random.default_rng(0)
    logits, overlap = random.normal(size=N) * 2, random.random(N)
    marks = drawn(sigmoid(0.5 * logits - 1 + 3 * overlap))
    given_head = dataclasses.replace(head(logits, marks), lexical_overlap=overlap)
    linear_map = fitted(given_head, weighed=["lexical_overlap"])
    assert (linear_map.scale, linear_map.shift) == pytest.approx((0.5, -1.0), abs=0.1)
    assert linear_map.lexical_overlap == pytest.approx(3.0, abs=0.2)
    tokens = probabilities(given_head, linear_map).tokens
    assert tokens == pytest.approx(sigmoid(0.5 * logits - 1 + 3 * overlap), abs=0.05)
    assert fitted(given_head).lexical_overlap == 0


def test_of_three_logits_all_are_scaled_and_the_first_is_shifted() -> None:
    logits = np.random.default_rng(0).normal(size=(N, 3)) * 3
    true = torch.tensor(logits * 0.4 + [0.7, 0, 0]).softmax(-1)[:, 0].numpy()
    linear_map = fitted(head(logits, drawn(true)))
    assert linear_map.scale == pytest.approx(0.4, abs=0.04)
    assert linear_map.shift == pytest.approx(0.7, abs=0.08)
    joined = probabilities(head(logits, true), LinearMap(0.4, 0.7))
    assert np.allclose(joined.tokens, true)


def test_unknown_marks_and_weights_of_zero_do_not_count() -> None:
    logits, marks = [2.0, 1.0, -1.0, -2.0, 50.0, 60.0], [1, 0, 1, 0, NAN, 0]
    weights = [1.0, 1, 1, 1, 1, 0]
    of_all = fitted(head(logits, marks, weights))
    of_four = fitted(head(logits[:4], marks[:4]))
    assert of_all.scale == pytest.approx(of_four.scale, rel=1e-3)
    rows = np.array([True] * 4 + [False] * 2)
    of_rows = fitted(head(logits, [1, 0, 1, 0, 0, 0]), rows=rows)
    assert of_rows.scale == pytest.approx(of_four.scale, rel=1e-3)


@pytest.mark.parametrize("middle", [0.0, -3.0])
def test_a_clean_separation_of_few_rows_gives_a_moderate_map(middle: float) -> None:
    logits = middle + 0.3 * np.repeat([-1.0, 1.0], 7) + np.linspace(-0.05, 0.05, 14)
    head_logits = head(logits, np.repeat([0.0, 1.0], 7))
    linear_map = fitted(head_logits)
    far = head(np.array([middle - 5, middle + 5]), [NAN, NAN])
    with_little, with_much = probabilities(far, linear_map).tokens.tolist()
    assert 1e-7 < with_little < with_much < 1 - 1e-7
    assert linear_map.scale < 3


def test_a_sentence_is_the_mean_of_its_tokens_and_a_response_its_weakest_sentence() -> None:
    # Two examples: sentences of tokens (0, 1) and (2), and of (3); token 1 has two copies.
    head_logits = HeadLogits(
        logits=np.array([[0.0, 0, 0], [-9, 0, 0], [2, 0, 0], [1, 0, 0], [-1, 0, 0]]),
        token=np.array([0, 1, 1, 2, 3]),
        sentence=np.array([0, 0, 1, 2]),
        row=np.array([0, 0, 1]),
        truth=np.array([1.0, 0, NAN]),
        verdict=np.array([0.0, 1.0]),
        weight=np.ones(2),
    )
    token = torch.tensor([[0.0, 0, 0], [2, 0, 0], [1, 0, 0], [-1, 0, 0]]).softmax(-1)[:, 0]
    joined = probabilities(head_logits, LinearMap())
    assert joined.tokens.tolist() == pytest.approx(token.tolist())
    means = [float(token[:2].mean()), float(token[2]), float(token[3])]
    assert joined.sentences.tolist() == pytest.approx(means)
    assert joined.faithfulness.tolist() == pytest.approx([min(means[:2]), means[2]])
    by_token = probabilities(head_logits, LinearMap(), "weakest_token").faithfulness
    assert by_token.tolist() == pytest.approx([float(token[:3].min()), float(token[3])])


@given(st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=5), min_size=1))
def test_the_two_weakest_sentences_are_those_of_the_model(rows: list[list[float]]) -> None:
    support = [value for row in rows for value in row]
    sizes = np.array([len(row) for row in rows])
    head_logits = HeadLogits(
        logits=logit(np.array(support)),
        token=None,
        sentence=np.arange(len(support)),
        row=np.repeat(np.arange(len(rows)), sizes),
        truth=np.full(len(support), NAN),
        verdict=np.full(len(rows), NAN),
        weight=np.ones(len(rows)),
    )
    faithfulness = probabilities(head_logits, LinearMap(), "two_weakest_sentences").faithfulness
    probs = np.full((len(rows), 6), 0.125)  # of padding, which must not count
    real = np.arange(6) < sizes[:, None]
    probs[real] = support
    np.testing.assert_allclose(faithfulness, two_weakest(probs, real))


def test_evidence_windows_are_joined_by_the_mean_of_mapped_logits() -> None:
    # Token 0 has two ordinary copies and one in an evidence window, token 1 one ordinary copy.
    head_logits = dataclasses.replace(
        head([-1.0, 0.5, 2.0, 1.0], [1, 0]),
        token=np.array([0, 0, 0, 1]),
        is_evidence=np.array([False, False, True, False]),
    )
    joined = probabilities(head_logits, LinearMap(2.0, -1.0)).tokens
    # The maximum of the ordinary copies, .5, becomes 0 and evidence 3; the mean is 1.5.
    assert joined.tolist() == pytest.approx(sigmoid(np.array([1.5, 1.0])).tolist())


def test_a_fit_over_evidence_windows_finds_the_map_that_made_the_marks() -> None:
    random = np.random.default_rng(0)
    ordinary, evidence = random.normal(size=(2, N)) * 2
    wanted = sigmoid(0.5 * (ordinary + evidence) / 2 - 1)  # beside one ordinary window
    marks = drawn(wanted)
    head_logits = dataclasses.replace(
        head(np.stack([ordinary, evidence], axis=1).ravel(), marks),
        token=np.repeat(np.arange(N), 2),
        is_evidence=np.tile([False, True], N),
    )
    linear_map = fitted(head_logits)
    assert (linear_map.scale, linear_map.shift) == pytest.approx((0.5, -1.0), abs=0.06)
    assert np.abs(probabilities(head_logits, linear_map).tokens - wanted).mean() < 0.02


def test_support_can_be_fitted_on_whole_responses() -> None:
    random = np.random.default_rng(0)
    logits = random.normal(size=N) + 1
    weakest = logits.reshape(-1, 2).min(1)
    head_logits = dataclasses.replace(
        head(logits, np.full(N, np.nan)),  # no labels of sentences
        row=np.repeat(np.arange(N // 2), 2),
        verdict=drawn(sigmoid(2 * weakest - 0.5)),
        weight=np.ones(N // 2),
    )
    linear_map = fitted(head_logits)
    assert linear_map.scale == pytest.approx(2, abs=0.15)
    assert linear_map.shift == pytest.approx(-0.5, abs=0.1)


def test_halves_keep_groups_whole() -> None:
    groups = ["a", "b", "a", "c", "d", "c"]
    first, second = halves(groups)
    assert (first ^ second).all()
    ours, theirs = ({groups[i] for i in np.flatnonzero(half)} for half in (first, second))
    assert ours.isdisjoint(theirs) and len(ours) == 2


def test_each_half_is_judged_by_the_map_of_the_other() -> None:
    head_logits = head([0.0] * 4, [0, 1, 0, 1])
    split = (np.array([True, True, False, False]), np.array([False, False, True, True]))

    def fit_rows(rows: npt.NDArray[np.bool_]) -> LinearMap:
        return LinearMap(1.0, 5.0 if rows[0] else -5.0)

    joined = cross_fitted(head_logits, split, fit_rows, "weakest_sentence")
    assert joined is not None
    for values in (joined.tokens, joined.sentences, joined.faithfulness):
        assert (values > 0.5).tolist() == [False, False, True, True]

    def refuse(rows: npt.NDArray[np.bool_]) -> LinearMap:
        raise DataError("nothing is known here")

    assert cross_fitted(head_logits, split, refuse, "weakest_sentence") is None


def test_errors_are_measured_by_source_and_by_length() -> None:
    masks = parts(["a", "a", "b"], [10, 6_000, 20_000])
    assert list(masks) == ["all", "a", "b", "0-5k tokens", "5k-16k tokens", "over 16k tokens"]
    logits = head([0.0, 0.0, 0.0], [1, NAN, 1])
    before, after = probabilities(logits, LinearMap()), probabilities(logits, LinearMap(1, 50))
    report = head_report("relevance", logits, before, after, masks, LinearMap(), "")
    errors = {error.part: error for error in report.errors}
    assert errors["all"].n == 2 and errors["all"].before == pytest.approx(0.5)
    assert errors["all"].after == pytest.approx(0) and errors["all"].rmse_after == pytest.approx(0)
    assert (errors["5k-16k tokens"].n, errors["5k-16k tokens"].before) == (0, None)
    assert list(parts(["a"], [10])) == ["all", "0-5k tokens"]
