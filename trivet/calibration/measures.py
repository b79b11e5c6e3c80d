"""What a calibration is worth: errors before, and after on rows that the map was not fitted on.

A map that is judged on the rows it was fitted on looks better than it is. So the groups are split
in two halves, each half is judged by the map of the other, and both are measured together. The map
that is kept is then fitted on all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from trivet.calibration.fit import HeadLogits, Map, Probabilities, probabilities
from trivet.data.segment_tokenizer import BoolArray
from trivet.measures.curves import ReliabilityBin, expected_calibration_error, reliability_bins
from trivet.measures.lengths import BUCKETS, bucket_of
from trivet.model.architecture import Reduction
from trivet.records import DataError

FloatArray = npt.NDArray[np.float64]
ALL = "all"


@dataclass(frozen=True)
class PartError:
    """The calibration error of some of the rows.

    Attributes:
        part: A source, a bucket of lengths, or ``all``.
        n: Sentences (or responses) with a known label.
        before: Expected calibration error; None where nothing is known.
        after: The same, cross-fitted; None where it could not be.
        rmse_before: Root mean squared error of the examples' shares of true sentences; of the
            context heads alone.
        rmse_after: The same, cross-fitted.
    """

    part: str
    n: int
    before: float | None
    after: float | None
    rmse_before: float | None = None
    rmse_after: float | None = None


@dataclass(frozen=True)
class HeadReport:
    """All that is measured of one head, or of whole responses.

    Attributes:
        name: ``support``, ``relevance``, ``utilization`` or ``faithfulness``.
        unit: What was judged: response sentences, context sentences, responses.
        found: The map fitted on all rows; None where there was none to fit.
        note: Why there is none.
        errors: Of all rows first, then by source and by length.
        before: The reliability curve before.
        after: The curve after, cross-fitted; empty where it could not be.
    """

    name: str
    unit: str
    found: Map | None
    note: str
    errors: tuple[PartError, ...]
    before: tuple[ReliabilityBin, ...]
    after: tuple[ReliabilityBin, ...]


def halves(groups: Sequence[str], seed: int = 0) -> tuple[BoolArray, BoolArray]:
    """Split examples in two, whole groups at a time. *Shape of each:* [B]."""
    names = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    first = {names[place] for place in order[: len(names) // 2]}
    mask = np.array([group in first for group in groups], dtype=np.bool_)
    return mask, ~mask


def parts(sources: Sequence[str], tokens: Sequence[int]) -> dict[str, BoolArray]:
    """Name the examples that are reported together: all, each source, each bucket of lengths."""
    source, bucket = np.array(sources), np.array([bucket_of(count) for count in tokens])
    found = {ALL: np.ones(len(source), dtype=np.bool_)}
    if len(set(sources)) > 1:
        found |= {name: source == name for name in sorted(set(sources))}
    found |= {f"{name} tokens": bucket == name for name, _ in BUCKETS}
    return {name: mask for name, mask in found.items() if mask.any()}


def cross_fitted(
    head: HeadLogits,
    split: tuple[BoolArray, BoolArray],
    fit: Callable[[BoolArray], Map],
    faithfulness: Reduction,
) -> Probabilities | None:
    """Judge each half by the map that is fitted on the other; None where a half cannot be fitted.

    Args:
        head: The logits.
        split: Of ``halves``.
        fit: Rows to a map.
        faithfulness: What a response's weakest part is.
    """
    try:
        first, second = (probabilities(head, fit(half), faithfulness) for half in split)
    except DataError:
        return None
    rows = {"weakest": split[0]}
    rows["sentences"] = rows["weakest"][head.row.numpy()]
    rows["tokens"] = rows["sentences"][head.sentence.numpy()]
    mixed = {
        # What was fitted on the first half judges the second.
        name: getattr(second, name).where(torch.from_numpy(rows[name]), getattr(first, name))
        for name in ("tokens", "sentences", "weakest")
    }
    return Probabilities(**mixed)


def sentence_report(
    name: str,
    head: HeadLogits,
    before: Probabilities,
    after: Probabilities | None,
    masks: Mapping[str, BoolArray],
    found: Map | None,
    note: str,
) -> HeadReport:
    """Measure a head by its sentences.

    Args:
        name: The head.
        head: Its labels.
        before: Under the bundle as it was.
        after: Cross-fitted.
        masks: Of ``parts``.
        found: The map of all rows.
        note: Why there is none.
    """
    row, shares = head.row.numpy(), name != "support"
    errors = []
    for part, mask in masks.items():
        known = mask[row] & np.isfinite(head.truth.numpy())
        curves = [_bins(one, "sentences", head.truth, known) for one in (before, after)]
        errors.append(
            PartError(
                part,
                int(known.sum()),
                *(expected_calibration_error(curve) for curve in curves),
                *(_share_rmse(one, head, known) if shares else None for one in (before, after)),
            )
        )
    known = np.isfinite(head.truth.numpy())
    return HeadReport(
        name,
        "response sentences" if name == "support" else "context sentences",
        found,
        note,
        tuple(errors),
        tuple(_bins(before, "sentences", head.truth, known)),
        tuple(_bins(after, "sentences", head.truth, known)),
    )


def response_report(
    head: HeadLogits,
    before: Probabilities,
    after: Probabilities | None,
    masks: Mapping[str, BoolArray],
) -> HeadReport:
    """Measure whole responses: how often one of a given faithfulness is adherent."""
    finite = np.isfinite(head.verdict.numpy())
    errors = []
    for part, mask in masks.items():
        known = mask & finite
        curves = [_bins(one, "weakest", head.verdict, known) for one in (before, after)]
        errors.append(
            PartError(part, int(known.sum()), *(expected_calibration_error(c) for c in curves))
        )
    return HeadReport(
        "faithfulness",
        "responses",
        None,
        "follows from support",
        tuple(errors),
        tuple(_bins(before, "weakest", head.verdict, finite)),
        tuple(_bins(after, "weakest", head.verdict, finite)),
    )


def _bins(
    found: Probabilities | None, name: str, truth: torch.Tensor, known: BoolArray
) -> list[ReliabilityBin]:
    if found is None:
        return []
    probs = np.clip(getattr(found, name).numpy(), 0, 1)  # means of many numbers round
    return reliability_bins(probs[known], truth.numpy()[known])


def _share_rmse(found: Probabilities | None, head: HeadLogits, known: BoolArray) -> float | None:
    """Root mean squared error of the share of true sentences, over examples."""
    if found is None or not known.any():
        return None
    row = head.row.numpy()[known]
    counts = np.bincount(row)
    gaps = np.bincount(row, (found.sentences - head.truth).numpy()[known])
    rows = counts > 0
    return float(np.sqrt(np.mean((gaps[rows] / counts[rows]) ** 2)))
