"""Windows are padded to a profile of the engine, and the padding is cut from the answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trivet.backends.backend import ShapedBackend
from trivet.backends.opening import load_tokenizer
from trivet.backends.profiles import Sizes, choose_profile, make_profiles, make_windows, sizes_of
from trivet.bundle.bundle import read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.serve.triton.config import replayed

WINDOW = 256
PROFILES = make_profiles(WINDOW, max_windows=4)


@pytest.fixture
def calls(serve: Any, repository: Any) -> Any:
    """Calls of the real encoder, as if it took only the shapes of ``PROFILES``."""
    from trivet.serve.triton.judge_model import EncoderCalls

    server = serve(repository)
    encoder = server.models["encoder"]
    real, asked = encoder.backend.run, []

    def run(windows: Any) -> Any:
        sizes = sizes_of(windows)
        profile = PROFILES[choose_profile(PROFILES, sizes)]
        assert profile.most["L"] == sizes.L
        asked.append(sizes)
        return real(windows)

    encoder.backend.run = run
    inputs = tuple(info.name for info in server.configs["encoder"].input)
    heads = read_bundle(EMBEDDED_BUNDLE).info.heads
    return EncoderCalls("encoder", inputs, PROFILES, heads), asked, real


@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(N=1, L=17, B=1, R=5, K=1, C=9, S=1),
        Sizes(N=2, L=100, B=2, R=30, K=2, C=60, S=3),
        Sizes(N=4, L=250, B=2, R=40, K=3, C=200, S=2),
    ],
)
def test_a_call_is_padded_to_a_profile_and_answers_as_without(calls: Any, sizes: Sizes) -> None:
    encoder, asked, real = calls
    assert isinstance(encoder, ShapedBackend)
    assert (encoder.positions, encoder.step, encoder.max_windows) == (1024, 64, 4)
    vocab = load_tokenizer(read_bundle(EMBEDDED_BUNDLE)).vocab_size
    windows = make_windows(sizes, vocab, seed=1)
    padded, wanted = encoder.run(windows), real(windows)
    for name in wanted.present():
        # int8 finds its range over all of a call, padding included.
        np.testing.assert_allclose(getattr(padded, name), getattr(wanted, name), atol=0.02)
    (shape,) = asked
    small = sizes.N <= 2 and sizes.S == 1
    assert (shape in replayed(PROFILES)) == small
