"""Profiles take every call that is packed for them, and padding changes no answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.evaluation.test_window_queue import job
from tests.judges import outputs_of
from trivet.backends.profiles import (
    FEW_WINDOWS,
    POSITIONS,
    STEP,
    Sizes,
    choose_profile,
    cut,
    graph_sizes,
    make_profiles,
    make_windows,
    max_positions,
    pad,
    padded_length,
    padding_step,
    shapes,
    sizes_of,
    windows_limit,
)
from trivet.data.windows import Windows
from trivet.errors import BackendError
from trivet.evaluation.packing import BatchLimits
from trivet.model.aggregate import Outputs

VOCAB = 200

any_sizes = st.builds(
    Sizes,
    N=st.integers(1, 5),
    L=st.integers(1, 90),
    B=st.integers(1, 3),
    R=st.integers(1, 20),
    K=st.integers(1, 4),
    C=st.integers(1, 40),
    S=st.integers(1, 4),
)


def answers(windows: Windows) -> Outputs:
    """Return probabilities that are functions of the token alone."""
    ids = windows.input_ids.astype(np.float32) / VOCAB
    return outputs_of(windows, ids, 1 - ids, ids**2, "weakest_sentence")


@given(any_sizes, any_sizes, st.integers(0, 99))
def test_padding_changes_no_answer(sizes: Sizes, more: Sizes, seed: int) -> None:
    windows = make_windows(sizes, VOCAB, seed)
    larger = Sizes(*(size + two for size, two in zip(sizes, more, strict=True)))
    padded = pad(windows, larger)
    assert sizes_of(padded) == larger
    assert padded.attention_mask.sum() == windows.attention_mask.sum()
    outputs = cut(answers(padded), sizes).present()
    for name, want in answers(windows).present().items():
        have = outputs[name]
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("window", [96, 512, 1000, 1024, 4096])
@given(lengths=st.lists(st.integers(1, 4096), min_size=1, max_size=80))
@settings(max_examples=50)
@example(lengths=[1025] * 7)
def test_every_packed_call_finds_a_profile(lengths: list[int], window: int) -> None:
    profiles = make_profiles(window)
    lengths = [min(length, window) for length in lengths]
    limits = BatchLimits(max_positions(profiles), padding_step(profiles), windows_limit(profiles))
    waiting = job(lengths)
    while waiting.places:
        call = waiting.take(limits)
        n, longest = len(call), max(slot.length for slot in call)
        # The worst a call can be: all of one example, or each its own.
        for b, k in ((1, n), (n, 1)):
            sizes = Sizes(N=n, L=longest, B=b, R=longest, K=k, C=n * longest, S=1)
            profile = profiles[choose_profile(profiles, sizes)]
            assert profile.most["L"] < 2 * longest + STEP or profile is profiles[n > FEW_WINDOWS]
            assert padded_length(profile, longest) - longest < STEP
            assert profile.most["N"] * profile.most["L"] <= POSITIONS or n <= FEW_WINDOWS + 1


@pytest.mark.parametrize("window", [40, 64, 96, 512, 1024])
def test_profiles_are_sound(window: int) -> None:
    profiles = make_profiles(window)
    assert len(profiles) <= 8
    assert max(profile.most["L"] for profile in profiles) == window
    for profile in profiles:
        for letter in Sizes._fields:
            assert 1 <= profile.least[letter] <= profile.usual[letter] <= profile.most[letter]
        largest = shapes(Sizes(**profile.most))
        assert max(int(np.prod(shape)) for shape in largest.values()) <= 2**24


def test_a_call_that_is_too_large_is_named() -> None:
    profiles = make_profiles(128)
    with pytest.raises(BackendError, match=r"no profile .* L=129.*'L': 128.*fewer windows"):
        choose_profile(profiles, Sizes(1, 129, 1, 1, 1, 1, 1))


def test_small_calls_share_one_shape_and_large_ones_keep_theirs() -> None:
    profiles = make_profiles(128)
    small = Sizes(N=2, L=100, B=1, R=30, K=2, C=99, S=1)
    number = choose_profile(profiles, small)
    fixed = graph_sizes(profiles[number], small)
    assert fixed == graph_sizes(profiles[number], small._replace(L=70, R=3, B=2, K=1))
    assert fixed is not None and fixed.L == 128 and fixed.N == 2
    assert graph_sizes(profiles[number], small._replace(S=2)) is None
    assert graph_sizes(profiles[number + 1], small._replace(N=3)) is None
