"""Joining: each reduction on a table written out by hand, its laws, and torch equal to numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trivet.model import aggregate
from trivet.model.aggregate import Array, Outputs
from trivet.model.architecture import NO_LAYER, Reduction, SentenceLayer

Make = Callable[[Any], Array]


@pytest.fixture(scope="module", params=[np.asarray, torch.tensor], ids=["numpy", "torch"])
def make(request: pytest.FixtureRequest) -> Make:
    """Return what turns nested lists into an array: the same tables hold for both libraries."""
    return request.param  # type: ignore[no-any-return]


def test_supported_anywhere_needs_one_window_that_supports(make: Make) -> None:
    # Two windows of four positions; each shows tokens 0, 1, 2 at its positions 1, 2, 3.
    window_probs = make([0.0, 0.875, 0.25, 0.125, 0.0, 0.125, 0.375, 0.75])
    response_at = make([[[1, 5], [2, 6], [3, 7]]])
    joined = aggregate.supported_anywhere(window_probs, response_at)
    # Neither all windows nor their mean decide. A token in one window only, and one in none, are
    # not read at position 0 instead of -1.
    assert joined.tolist() == [[0.875, 0.375, 0.75]]
    response_at = make([[[2, -1], [-1, -1], [-1, 3]]])
    joined = aggregate.supported_anywhere(make([0.75, 0.5, 0.25, 0.125]), response_at)
    assert joined.tolist() == [[0.25, 0.0, 0.125]]


def test_evidence_is_joined_by_the_mean_of_logits(make: Make) -> None:
    ordinary, evidence = make([[2.0, 2.0, -4.0, 2.0, 2.0]]), make([[-6.0, 4.0, 8.0, 100.0, -6.0]])
    gathered, windows = make([[True, True, True, False, True]]), make([[4, 2, 3, 0, 8]])
    joined = aggregate.join_evidence(ordinary, evidence, gathered, windows)
    # Neither the maximum nor the minimum decides; without an evidence window nothing changes.
    assert joined.tolist() == [[0.0, 3.0, 0.0, 2.0, 1.0]]
    # sqrt(.5 x .8) : sqrt(.5 x .2) is 2 : 1; equal opinions stay.
    ordinary, evidence = make([[0.5, 0.25, 0.3, 1.0]]), make([[0.8, 0.25, 0.9, 0.5]])
    gathered, windows = make([[True, True, False, True]]), make([[2, 5, 2, 2]])
    joined = aggregate.join_evidence_probs(ordinary, evidence, gathered, windows)
    assert joined.tolist()[0][:3] == pytest.approx([2 / 3, 0.25, 0.3])
    assert 0.999 < float(joined[0, 3]) < 1.0


def test_no_evidence_window_leaves_every_probability_to_the_bit(make: Make) -> None:
    probs = make([[0.0, 1e-9, 0.1, 0.7, 1.0]])
    nothing = make([[float("nan")] * 5])
    false, two = make([[False] * 5]), make([[2] * 5])
    joined = aggregate.join_evidence_probs(probs, nothing, false, two)
    assert joined.tolist() == probs.tolist()


def test_split_evidence_by_hand(make: Make) -> None:
    response_at = make([[[1, 5, 9], [2, 6, -1]], [[3, 4, -1], [-1, -1, -1]]])
    is_evidence = make([[False, False, True], [False, False, False]])
    ordinary, evidence = aggregate.split_evidence(response_at, is_evidence)
    assert ordinary.tolist() == [[[1, 5, -1], [2, 6, -1]], [[3, 4, -1], [-1, -1, -1]]]
    assert evidence.tolist() == [[[-1, -1, 9], [-1, -1, -1]], [[-1, -1, -1], [-1, -1, -1]]]


@pytest.mark.parametrize(
    ("probs", "real", "expected"),
    [
        ([0.75, 0.5, 0.125], [True, True, True], (2 * 0.125 + 0.5) / 3),
        ([0.75, 0.5, 0.125], [True, True, False], (2 * 0.5 + 0.75) / 3),
        ([0.75, 0.5, 0.125], [False, True, False], 0.5),
        ([0.75, 0.5, 0.125], [False, False, False], 1.0),
        ([0.25, 0.75, 0.25], [True, True, True], 0.25),
        ([1.0, 1.0, 0.25], [True, True, False], 1.0),
    ],
)
def test_of_the_two_weakest_the_lower_counts_twice(
    make: Make, probs: list[float], real: list[bool], expected: float
) -> None:
    joined = aggregate.two_weakest(make([probs]), make([real]))
    assert joined.tolist() == pytest.approx([expected])


def test_a_sentence_layer_scales_the_logit_and_adds_to_it(make: Make) -> None:
    support, features = make([[0.5, 0.75]]), make([[[1.0, 1.0], [0.0, 0.0]]])
    layer = SentenceLayer(2.0, math.log(3), (math.log(5), -math.log(4)))
    # The odds 1 and 3 are squared and multiplied by 3; features multiply the first by 5 / 4.
    joined = aggregate.weigh_sentences(support, features, layer)
    assert joined.tolist()[0] == pytest.approx([3.75 / 4.75, 27 / 28])


def test_completeness_is_the_utilized_share_of_the_relevant(make: Make) -> None:
    weight = make([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]])
    relevance = make([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    utilization = make([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    # Relevant: .75, of which .5 is utilized. A part that is utilized but not relevant counts for
    # nothing; where nothing is relevant nothing is complete.
    joined = aggregate.completeness(relevance, utilization, weight)
    assert joined.tolist() == pytest.approx([2 / 3, 0.0])
    # As unsure of one as of the other: what is relevant, if it is, was utilized.
    half = make([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]])
    assert aggregate.completeness(half, half, weight).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("reduction", "faithfulness"),
    [
        ("weakest_token", 0.25),
        ("weakest_sentence", 0.5),
        ("two_weakest_sentences", (2 * 0.5 + 0.625) / 3),
    ],
)
def test_join_by_hand(make: Make, reduction: Reduction, faithfulness: float) -> None:
    outputs = aggregate.join(
        support_probs=make([[1.0, 0.25, 0.5, 0.0]]),  # the last is padding
        # A sentence of one token, one of two, and padding.
        relevance_probs=make([[1.0, 0.25, 0.75, 1.0]]),
        utilization_probs=make([[0.5, 0.0, 0.0, 1.0]]),
        response_mask=make([[True, True, True, False]]),
        context_weight=make([[0.5, 0.25, 0.25, 0.0]]),
        sentence_pool=make([[[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]),
        sentence_features=make([[[0.5], [0.5], [0.0]]]),
        faithfulness=reduction,
    )
    assert outputs.sentence_support.tolist() == [[0.625, 0.5, 1.0]]
    assert outputs.faithfulness.tolist() == pytest.approx([faithfulness])
    assert outputs.relevance.tolist() == [0.75]
    assert outputs.utilization.tolist() == [0.25]
    assert outputs.completeness.tolist() == pytest.approx([0.25 / 0.75])


class Case:
    """Random windows with random maps: N windows of L positions, B examples."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.n, self.length, self.b = random.integers(1, [6, 9, 4])
        tokens, copies, contexts, sentences = random.integers(1, [7, 4, 7, 4])
        places = self.n * self.length
        self.probs = random.random((3, self.n, self.length), dtype=np.float32)
        self.response_at = random.integers(-1, places, (self.b, tokens, copies))
        self.context_at = random.integers(-1, places, (self.b, contexts))
        weight = random.random((self.b, contexts)) * (self.context_at >= 0)
        total = np.maximum(weight.sum(-1, keepdims=True), 1e-3)
        self.context_weight = (weight / total).astype(np.float32)
        real = np.any(self.response_at >= 0, axis=-1, keepdims=True)[..., 0]
        home = random.integers(0, sentences, (self.b, tokens))
        pool = (home[:, None, :] == np.arange(sentences)[:, None]) & real[:, None, :]
        self.sentence_pool = (pool / np.maximum(pool.sum(-1, keepdims=True), 1)).astype(np.float32)
        self.reduction: Reduction = get_args(Reduction)[seed % 3]
        count = int(random.integers(1, 4))
        shape = (*self.sentence_pool.shape[:2], count)
        self.sentence_features = random.random(shape, dtype=np.float32)
        weights = tuple(map(float, random.normal(size=count)))
        self.layer = (NO_LAYER, SentenceLayer(0.7, -0.4, weights))[seed % 2]
        self.random = random

    def join(self, convert: Make = np.asarray) -> Outputs:
        support, relevance, utilization = (convert(probs.reshape(-1)) for probs in self.probs)
        return aggregate.join(
            support_probs=aggregate.supported_anywhere(support, convert(self.response_at)),
            relevance_probs=aggregate.gather_tokens(relevance, convert(self.context_at)),
            utilization_probs=aggregate.gather_tokens(utilization, convert(self.context_at)),
            response_mask=convert((self.response_at >= 0).any(-1)),
            context_weight=convert(self.context_weight),
            sentence_pool=convert(self.sentence_pool),
            sentence_features=convert(self.sentence_features),
            faithfulness=self.reduction,
            layer=self.layer,
        )


cases = st.integers(0, 2**32 - 1).map(Case)


def assert_equal(ours: Outputs, theirs: Outputs) -> None:
    for name in theirs.present():
        a, b = getattr(ours, name), getattr(theirs, name)
        a, b = np.asarray(a), np.asarray(b)
        inside = tuple(map(slice, b.shape))
        np.testing.assert_allclose(a[inside], b, atol=1e-6, err_msg=name)


@given(cases)
def test_numpy_and_torch_agree(case: Case) -> None:
    assert_equal(case.join(torch.from_numpy), case.join())


@given(cases)
def test_permuting_windows_changes_nothing(case: Case) -> None:
    before = case.join()
    order = case.random.permutation(case.n)
    new_place = np.argsort(order)
    case.probs = case.probs[:, order]
    for name in ("response_at", "context_at"):
        at = getattr(case, name)
        row, column = np.divmod(at, case.length)
        setattr(case, name, np.where(at < 0, -1, new_place[row] * case.length + column))
    assert_equal(case.join(), before)


@given(cases)
def test_a_batch_equals_its_singles(case: Case) -> None:
    whole = case.join()
    fields = ("response_at", "context_at", "context_weight", "sentence_pool", "sentence_features")
    kept = {name: getattr(case, name) for name in fields}
    for b in range(case.b):
        for name, values in kept.items():
            setattr(case, name, values[b : b + 1])
        single = case.join()
        assert_equal(
            Outputs(*(None if output is None else output[b : b + 1] for output in whole)), single
        )


@given(cases, st.integers(0, 3), st.integers(0, 3))
def test_extra_padding_changes_nothing(case: Case, wider: int, more: int) -> None:
    before = case.join()
    old = case.length
    case.length = old + wider
    case.probs = np.pad(case.probs, ((0, 0), (0, more), (0, wider)), constant_values=1.0)
    for name in ("response_at", "context_at"):
        at = getattr(case, name)
        row, column = np.divmod(at, old)
        moved = np.where(at < 0, -1, row * case.length + column)
        widths = [(0, 0)] + [(0, more)] * (at.ndim - 1)
        setattr(case, name, np.pad(moved, widths, constant_values=-1))
    case.context_weight = np.pad(case.context_weight, ((0, 0), (0, more)))
    case.sentence_pool = np.pad(case.sentence_pool, ((0, 0), (0, more), (0, more)))
    case.sentence_features = np.pad(case.sentence_features, ((0, 0), (0, more), (0, 0)))
    assert_equal(case.join(), before)


@given(cases)
def test_joined_evidence_lies_between_its_two_opinions(case: Case) -> None:
    ordinary, evidence = (1e-6 + 0.999 * probs for probs in case.probs[:2])
    gathered = case.probs[2] > 0.5
    windows = case.random.integers(2, 9, gathered.shape)

    def join(first: Any, second: Any, counts: Any) -> Any:
        return aggregate.join_evidence_probs(first, second, gathered, counts)

    joined = join(ordinary, evidence, windows)
    low, high = np.minimum(ordinary, evidence), np.maximum(ordinary, evidence)
    slack = 1e-5
    assert ((joined >= low - slack) & (joined <= high + slack))[gathered].all()
    np.testing.assert_array_equal(joined[~gathered], ordinary[~gathered])
    # Beside two windows it makes no difference which of the two opinions is the gathered one.
    two = gathered & (windows == 2)
    original, swapped = (
        join(*pair, windows)[two] for pair in ((ordinary, evidence), (evidence, ordinary))
    )
    np.testing.assert_allclose(swapped, original, atol=1e-6)
    # More support is never less, and beside more windows the evidence window decides less.
    more = join(high, evidence, windows)
    assert (more >= joined - slack).all()
    beside = join(ordinary, evidence, windows + 1)
    assert (abs(beside - ordinary) <= abs(joined - ordinary) + slack).all()


@given(cases)
def test_logits_and_probabilities_of_evidence_join_alike_in_both_libraries(case: Case) -> None:
    logits, evidence = (8 * (probs - 0.5) for probs in case.probs[:2])
    gathered = case.probs[2] > 0.5
    windows = case.random.integers(2, 9, gathered.shape)

    def sigmoid(values: Any) -> Any:
        return 1 / (1 + np.exp(-values))

    joined = sigmoid(aggregate.join_evidence(logits, evidence, gathered, windows))
    probs = sigmoid(logits), sigmoid(evidence), gathered, windows
    np.testing.assert_allclose(aggregate.join_evidence_probs(*probs), joined, atol=1e-5)
    by_torch = aggregate.join_evidence_probs(*map(torch.from_numpy, probs))
    np.testing.assert_allclose(by_torch.numpy(), joined, atol=1e-5)
