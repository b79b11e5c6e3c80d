"""Averages of the weights of several bundles.

Between a model and the same model trained further, the average keeps much of what both know
(Wortsman et al., arXiv 2109.01903); of several runs from one start it is often better than each of
them (Wortsman et al., arXiv 2203.05482). The result is one model of the same size and speed.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from torch import Tensor

from trivet.bundle.bundle import (
    TEXTS_NAME,
    TOKENIZER_NAME,
    Bundle,
    check_folder,
    read_bundle,
    write_bundle,
)
from trivet.bundle.schema import CalibrationInfo, PlattInfo, TrainingInfo
from trivet.bundle.weights import load_rag_model
from trivet.errors import BundleError
from trivet.model.architecture import DEFAULT_HEADS
from trivet.model.rag_model import RagModel
from trivet.training.trained_bundle import merge_data, to_lines

# Parts of an architecture that no weight depends on.
_MAY_DIFFER = ("dropout", "faithfulness", "lexical_overlap")
_DROPOUTS = {
    *("attention_probs_dropout_prob", "hidden_dropout_prob"),
    *("attention_dropout", "mlp_dropout"),  # of ModernBERT
}


def average(shares: Sequence[tuple[str | os.PathLike[str], float]], out: Path) -> None:
    """Write a bundle whose weights are the weighted mean of those of other bundles.

    All but weights and training record are those of the first bundle: windows, reduction,
    thresholds, and the map of the probabilities of sources. Linear calibrations of the other heads
    are in the weights, and so are averaged. Calibrate the result.

    Args:
        shares: Folder or name of each bundle, and its share, above 0. The shares are scaled to a
            sum of 1.
        out: Folder of the new bundle.

    Raises:
        BundleError: There are fewer than two bundles, a share is not above 0, a bundle has no
            weights or an isotonic calibration, two bundles differ in architecture or tokenizer, or
            ``out`` holds other files.
    """
    for name, share in shares:
        if not 0 < share < math.inf:
            raise BundleError(f"{os.fspath(name)}: its share ({share}) must be above 0 and finite")
    if len(shares) < 2:
        raise BundleError(f"{len(shares)} bundle cannot be averaged; give two or more")
    check_folder(out)
    bundles = [read_bundle(name) for name, _ in shares]
    first, total = bundles[0], sum(share for _, share in shares)
    parts = [share / total for _, share in shares]
    model = load_rag_model(first)
    wanted = _compared(first, model)
    state: dict[str, Tensor] = {}
    overlaps = dict.fromkeys(model.lexical_overlap, 0.0)
    for bundle, part in zip(bundles, parts, strict=True):
        other = model if bundle is first else load_rag_model(bundle)
        _check_alike(first, wanted, bundle, _compared(bundle, other))
        for name, values in other.state_dict().items():
            if values.is_floating_point():
                state[name] = state.get(name, 0) + values * part
        for head, weight in other.lexical_overlap.items():
            overlaps[head] += weight * part
    model.load_state_dict(model.state_dict() | state)
    model.lexical_overlap = overlaps
    info = first.info.model_copy(
        update={
            "calibration": _calibration(
                {name: overlaps[name] for name in overlaps if name in model.heads}
            ),
            "training": _record(bundles, shares),
            "scores": (),
            "notes": (),
            "graphs": (),
            "engines": (),
            "openvino": None,
        }
    )
    write_bundle(
        out,
        info,
        first.path(TOKENIZER_NAME).read_text(encoding="utf-8"),
        weights=model.state_dict(),
        encoder_config=model.architecture(),
        extra=_texts(bundles),
    )


def _compared(bundle: Bundle, model: RagModel) -> dict[str, Any]:
    """Return the architecture without what averaged bundles may differ in, and the tokenizer."""
    found = {key: value for key, value in model.architecture().items() if key not in _MAY_DIFFER}
    if "calibration" in found:
        raise BundleError(
            f"{bundle.folder}: has an isotonic calibration, of which there is no average; "
            "give the bundle that was calibrated"
        )
    found["encoder"] = {
        key: value for key, value in model.trunk.encoder_config().items() if key not in _DROPOUTS
    }
    found["tokenizer"] = bundle.path(TOKENIZER_NAME).read_bytes()
    return found


def _check_alike(
    first: Bundle, wanted: Mapping[str, Any], other: Bundle, found: Mapping[str, Any]
) -> None:
    differ = [key for key in {*wanted, *found} if wanted.get(key) != found.get(key)]
    if differ:
        raise BundleError(
            f"{other.folder}: differs from {first.folder} in {', '.join(sorted(differ))}; only "
            "bundles of one architecture can be averaged"
        )


def _calibration(overlaps: Mapping[str, float]) -> CalibrationInfo:
    """Return the record of weights of lexical overlap, which are no part of the weights."""
    if not any(overlaps.values()):
        return CalibrationInfo()
    heads = {
        name: PlattInfo(scale=1.0, shift=0.0, lexical_overlap=overlaps[name])
        for name in DEFAULT_HEADS
        if name in overlaps
    }
    return CalibrationInfo(method="platt", heads=heads)


def _record(
    bundles: Sequence[Bundle], shares: Sequence[tuple[str | os.PathLike[str], float]]
) -> TrainingInfo:
    """Return the training record of the first bundle, with the data and commands of all."""
    records = [bundle.info.training for bundle in bundles]
    first, *others = records
    named = shlex.join(f"{os.fspath(name)}={share:g}" for name, share in shares)
    commands = dict.fromkeys([*(each.command for each in records), f"trivet average {named}"])
    changed: dict[str, Any] = {
        "data": merge_data(each for record in records for each in record.data),
        "date": date.today().isoformat(),
        "command": " && ".join(commands),
    }
    if any(each.left_out != first.left_out for each in others):
        changed["left_out"] = None  # what one run left out another may have read
    return first.model_copy(update=changed)


def _texts(bundles: Sequence[Bundle]) -> dict[str, bytes]:
    """Return the record of all training texts; none if a bundle lacks it."""
    known = [bundle.training_texts() for bundle in bundles]
    texts = frozenset[str]().union(*(each for each in known if each is not None))
    return {} if None in known else {TEXTS_NAME: to_lines(texts).encode()}
