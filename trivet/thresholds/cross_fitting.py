"""Errors before a calibration, and after it by two-fold cross-fitting.

Groups are split in two halves, each mapped by the fit of the other. The map that is kept is fitted
on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.errors import DataError
from trivet.measures.curves import (
    BoolArray,
    FloatArray,
    ReliabilityBin,
    expected_calibration_error,
    reliability_bins,
)
from trivet.measures.lengths import BUCKETS, bucket_of
from trivet.model.architecture import Reduction
from trivet.thresholds.fit import LinearMap, probabilities
from trivet.thresholds.joining import HeadLogits, Probabilities


@dataclass(frozen=True)
class PartError:
    """The calibration error of some rows."""

    part: str  # source, length bucket, or ``all``
    n: int  # sentences (or responses) with a known label
    before: float | None  # expected calibration error; None without labels
    after: float | None  # cross-fitted; None without a fit
    rmse_before: float | None = None  # of the examples' shares of true sentences; context heads
    rmse_after: float | None = None


@dataclass(frozen=True)
class HeadReport:
    """The errors of one head, or of whole responses."""

    name: str  # head, or ``faithfulness``
    unit: str
    fitted: LinearMap | None  # map fitted on all rows
    note: str  # reason for a missing map
    errors: tuple[PartError, ...]  # of all rows, then by source and by length
    before: tuple[ReliabilityBin, ...]
    after: tuple[ReliabilityBin, ...]  # cross-fitted; may be empty


def halves(groups: Sequence[str]) -> tuple[BoolArray, BoolArray]:
    """Split examples in two halves of whole groups. *Shape of each:* [B]."""
    names = sorted(set(groups))
    order = np.random.default_rng(0).permutation(len(names))
    first = {names[index] for index in order[: len(names) // 2]}
    mask = np.array([group in first for group in groups], dtype=np.bool_)
    return mask, ~mask


def parts(sources: Sequence[str], tokens: Sequence[int]) -> dict[str, BoolArray]:
    """Return the masks of reported examples: all, each source, each length bucket."""
    source, bucket = np.array(sources), np.array([bucket_of(count) for count in tokens])
    masks = {"all": np.ones(len(source), dtype=np.bool_)}
    if len(set(sources)) > 1:
        masks |= {name: source == name for name in sorted(set(sources))}
    masks |= {f"{name} tokens": bucket == name for name, _ in BUCKETS}
    return {name: mask for name, mask in masks.items() if mask.any()}


def cross_fitted(
    head: HeadLogits,
    split: tuple[BoolArray, BoolArray],
    fit: Callable[[BoolArray], LinearMap],
    faithfulness: Reduction,
) -> Probabilities | None:
    """Return each half's probabilities by the map of the other; None if a half cannot be fitted."""
    try:
        first, second = (probabilities(head, fit(half), faithfulness) for half in split)
    except DataError:
        return None
    rows = {"faithfulness": split[0]}
    rows["sentences"] = rows["faithfulness"][head.row]
    rows["tokens"] = rows["sentences"][head.sentence]
    return Probabilities(
        **{
            name: np.where(mask, getattr(second, name), getattr(first, name))
            for name, mask in rows.items()
        }
    )


def head_report(
    name: str,
    head: HeadLogits,
    before: Probabilities,
    after: Probabilities | None,
    masks: Mapping[str, BoolArray],
    linear_map: LinearMap | None = None,
    note: str = "",
) -> HeadReport:
    """Measure a head by its sentences, or ``faithfulness`` by whole responses.

    The map was fitted on all rows, the probabilities after it are cross-fitted.
    """
    if name == "faithfulness":
        unit, kind, truth = "responses", "faithfulness", head.verdict
    else:
        unit = "response sentences" if name == "support" else "context sentences"
        kind, truth = "sentences", head.truth
        masks = {part: mask[head.row] for part, mask in masks.items()}
    errors, curves = [], []
    for part, mask in masks.items():
        known = mask & np.isfinite(truth)
        curves.append([_bins(probs, kind, truth, known) for probs in (before, after)])
        errors.append(
            PartError(
                part,
                int(known.sum()),
                *(expected_calibration_error(curve) for curve in curves[-1]),
                *(
                    _share_rmse(probs, head, known) if unit == "context sentences" else None
                    for probs in (before, after)
                ),
            )
        )
    whole = curves[0]  # the first part is ``all``
    return HeadReport(name, unit, linear_map, note, tuple(errors), tuple(whole[0]), tuple(whole[1]))


def _bins(
    predicted: Probabilities | None, kind: str, truth: FloatArray, known: BoolArray
) -> list[ReliabilityBin]:
    if predicted is None:
        return []
    probs = np.clip(getattr(predicted, kind), 0, 1)  # means may exceed 1 by rounding
    return reliability_bins(probs[known], truth[known])


def _share_rmse(probs: Probabilities | None, head: HeadLogits, known: BoolArray) -> float | None:
    """Return the root mean squared error of the examples' shares of true sentences."""
    if probs is None or not known.any():
        return None
    row = head.row[known]
    counts = np.bincount(row)
    gaps = np.bincount(row, (probs.sentences - head.truth)[known])
    rows = counts > 0
    return float(np.sqrt(np.mean((gaps[rows] / counts[rows]) ** 2)))
