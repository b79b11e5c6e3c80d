"""Random windows of given sizes, to trace, compare and self-test graphs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.data.sentence_features import FEATURES
from trivet.data.windows import Windows


class Sizes(NamedTuple):
    """Size of every dimension, by its letter."""

    N: int
    L: int
    B: int
    R: int
    K: int
    C: int
    S: int


def make_windows(sizes: Sizes, vocab: int, seed: int) -> Windows:
    """Return windows of random ids with padding and missing tokens, as in real batches.

    The first window is full and the last holds one token. About a fifth of the response copies and
    context tokens are absent.
    """
    n, length, b, r, k, c, s = sizes
    random = np.random.default_rng(seed)
    lengths = random.integers(1, length + 1, size=n)
    lengths[-1], lengths[0] = 1, length
    mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
    starts = random.integers(0, length + 1, size=(n, 1))
    real = np.flatnonzero(mask.reshape(-1))
    weight = random.random((b, c)).astype(np.float32) + 0.1
    context_at = _places(random, real, (b, c))
    weight[context_at < 0] = 0.0
    totals = weight.sum(axis=-1, keepdims=True)
    response_at = _places(random, real, (b, r, k))
    pool = (np.arange(r) * s // r)[None, :] == np.arange(s)[:, None]
    means = pool / np.maximum(pool.sum(axis=-1, keepdims=True), 1)
    return Windows(
        input_ids=random.integers(0, vocab, size=(n, length)) * mask,
        attention_mask=mask,
        segment_ids=(np.arange(length) >= starts).astype(np.int64) * mask,
        response_at=response_at,
        context_at=context_at,
        context_weight=(weight / np.where(totals > 0, totals, 1)).astype(np.float32),
        question_overlap=_shares(random, context_at),
        response_overlap=_shares(random, context_at),
        sentence_pool=np.broadcast_to(means, (b, s, r)).astype(np.float32),
        sentence_features=random.random((b, s, len(FEATURES))).astype(np.float32),
    )


def _shares(random: np.random.Generator, at: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Return random numbers in [0, 1), 0 on padding."""
    return np.where(at < 0, 0.0, random.random(at.shape)).astype(np.float32)


def _places(
    random: np.random.Generator, real: npt.NDArray[Any], shape: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Return random flat positions of real tokens, -1 for about a fifth."""
    places = random.choice(real, size=shape)
    places[random.random(shape) < 0.2] = -1
    return places.astype(np.int64)
