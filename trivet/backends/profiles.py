"""Sizes of windows: random windows of given sizes, and the profiles of TensorRT engines.

An engine has two profiles each for windows up to a quarter, up to half and up to the full length:
one for one or two windows, one for more; at most six, each of which takes build time. Windows are
padded to a multiple of 64 positions. Calls of one or two windows are padded to one shape for each
such length, so that they can be replayed as a CUDA graph. Dimension letters are those of
``Windows``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.bundle.backend_info import ShapeRange
from trivet.bundle.info import INPUTS, OUTPUTS
from trivet.data.sentence_features import FEATURES
from trivet.data.windows import Windows
from trivet.errors import BackendError
from trivet.heads import EVIDENCE_STATES
from trivet.model.aggregate import Outputs


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


STEP = 64
# Most windows of a call that is replayed as a CUDA graph.
FEW_WINDOWS = 2
# Positions of a call that keep a GPU busy (docs/performance.md).
POSITIONS = 8192
MAX_WINDOWS = 16
_MAX_SENTENCES = 64


def make_profiles(window: int, max_windows: int = MAX_WINDOWS) -> tuple[ShapeRange, ...]:
    """Return two profiles, of few and of more windows, for at most four lengths up to ``window``.

    The lengths are equidistant, so that a call that fits by ``padding_step`` has a profile.
    """
    step = -(-window // 4 // STEP) * STEP
    profiles = []
    for length in [*range(step, window, step), window]:
        most = max(FEW_WINDOWS + 1, min(max_windows, POSITIONS // length))
        profiles.append(_profile(length, 1, FEW_WINDOWS))
        profiles.append(_profile(length, FEW_WINDOWS + 1, most))
    return tuple(profiles)


def max_positions(profiles: tuple[ShapeRange, ...]) -> int:
    """Return the most positions of a call of any window length."""
    return min(POSITIONS, max(profile.most["N"] * profile.most["L"] for profile in profiles))


def padding_step(profiles: tuple[ShapeRange, ...]) -> int:
    """Return the distance of the profiles' lengths, by which the windows of a call are counted."""
    return -(-min(profile.most["L"] for profile in profiles) // STEP) * STEP


def windows_limit(profiles: tuple[ShapeRange, ...]) -> int:
    """Return the most windows of a call, however short they are."""
    return max(profile.most["N"] for profile in profiles)


def _profile(length: int, few: int, many: int) -> ShapeRange:
    most = Sizes(
        N=many, L=length, B=many, R=many * length, K=many, C=many * length, S=_MAX_SENTENCES
    )
    least = Sizes(N=few, L=1, B=1, R=1, K=1, C=1, S=1)
    # Typical calls hold one long example, with some dozens of response tokens in each window.
    usual = most._replace(B=1, R=min(length, STEP), C=max(1, many * length // 2), S=1)
    return ShapeRange(least=least._asdict(), usual=usual._asdict(), most=most._asdict())


def sizes_of(windows: Windows) -> Sizes:
    """Return the size of every dimension of ``windows``."""
    arrays, sizes = windows._asdict(), dict[str, int]()
    for info in INPUTS:
        sizes |= dict(zip(info.dims, arrays[info.name].shape, strict=True))
    return Sizes(**{letter: sizes[letter] for letter in Sizes._fields})


def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input and output by its name."""
    by_letter = sizes._asdict() | {"P": EVIDENCE_STATES, "F": len(FEATURES)}
    return {info.name: tuple(by_letter[d] for d in info.dims) for info in (*INPUTS, *OUTPUTS)}


def choose_profile(profiles: tuple[ShapeRange, ...], sizes: Sizes) -> int:
    """Return the index of the profile with the shortest windows that takes ``sizes``.

    Raises:
        BackendError: There is none; the message gives the largest sizes.
    """
    wanted = sizes._asdict()
    fits = [
        number
        for number, profile in enumerate(profiles)
        if all(wanted[letter] <= profile.most[letter] for letter in wanted)
        and profile.least["N"] <= wanted["N"]
    ]
    if not fits:
        largest = {letter: max(profile.most[letter] for profile in profiles) for letter in wanted}
        raise BackendError(
            f"no profile of the engine takes {sizes}; the largest sizes are {largest}; "
            "run fewer windows per call"
        )
    return min(fits, key=lambda number: profiles[number].most["L"])


def graph_sizes(profile: ShapeRange, sizes: Sizes) -> Sizes | None:
    """Return the shape that a small call is padded to for replay; ``None`` for other calls."""
    if sizes.N > FEW_WINDOWS or sizes.S > 1:
        return None
    n, length = sizes.N, padded_length(profile, sizes.L)
    fixed = Sizes(N=n, L=length, B=n, R=n * length, K=n, C=n * length, S=1)
    fits = all(have <= limit for have, limit in zip(sizes, fixed, strict=True))
    return fixed if fits else None


def padded_length(profile: ShapeRange, length: int) -> int:
    """Return the positions that windows of ``length`` are padded to in a profile."""
    return min(-(-length // STEP) * STEP, profile.most["L"])


def pad(windows: Windows, sizes: Sizes) -> Windows:
    """Return windows padded to ``sizes``, which must not be smaller than their own."""
    length, longer = windows.input_ids.shape[1], sizes.L
    wanted = shapes(sizes)
    moved = windows._replace(
        response_at=_move(windows.response_at, length, longer),
        context_at=_move(windows.context_at, length, longer),
    )
    nothing = {"response_at": -1, "context_at": -1}
    return Windows(
        **{
            name: _fill(array, wanted[name], nothing.get(name, 0))
            for name, array in moved._asdict().items()
        }
    )


def cut(outputs: Outputs, sizes: Sizes) -> Outputs:
    """Cut the outputs of padded windows to the original ``sizes``."""
    wanted = shapes(sizes)
    return Outputs(
        **{
            name: None if array is None else array[tuple(slice(size) for size in wanted[name])]
            for name, array in outputs._asdict().items()
        }
    )


def _move(at: npt.NDArray[Any], length: int, longer: int) -> npt.NDArray[Any]:
    """Convert flat positions n * length + l to longer windows; -1 stays."""
    return np.where(at < 0, -1, at // length * longer + at % length)


def _fill(array: npt.NDArray[Any], shape: tuple[int, ...], nothing: int) -> npt.NDArray[Any]:
    """Return ``array`` padded at the end of every dimension with ``nothing``."""
    filled = np.full(shape, nothing, dtype=array.dtype)
    filled[tuple(slice(size) for size in array.shape)] = array
    return filled
