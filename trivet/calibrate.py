"""Calibration of the context heads: a bundle's logits are scaled and shifted to fit a dev split.

Platt scaling: p = sigmoid(scale * logit + shift), one pair a head, fitted by the loss the head was
trained with. A head's last layer is linear, so the pair is folded into its weights: the graph and
every engine stay as they are. A model that was trained for several epochs on few rows is too sure
of itself, and relevance and utilization are means of probabilities.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from trivet.data.module import Item, collate_items, prepare
from trivet.data.sources import load_source
from trivet.data.tokens import FloatArray, IntArray, SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.heads.token_head import TokenHead
from trivet.model.aggregate import gather_tokens
from trivet.model.bundle import TOKENIZER_NAME, CalibrationInfo, read_bundle, write_bundle
from trivet.model.bundle_info import PlattInfo
from trivet.model.bundle_weights import load_rag_model
from trivet.model.rag_model import RagModel
from trivet.records import DataError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Head:
    """What one context head said of known tokens. *Shape of each:* [tokens of all examples]."""

    logits: FloatArray
    marks: IntArray
    weights: FloatArray


def calibrate(folder: Path, specs: Sequence[str], split: str = "dev") -> CalibrationInfo:
    """Fit the relevance and the utilization head on labelled rows, and rewrite the bundle.

    Graphs of the old weights are removed; export again afterwards. Thresholds stay: they belong to
    support, which is not touched.

    Args:
        folder: A bundle with weights; changed in place.
        specs: Labelled sources.
        split: Rows that no weight was trained on.

    Returns:
        Scale and shift of each head, in all: of this calibration after those before it.

    Raises:
        BundleError: The bundle is refused or has no weights.
        DataError: The rows hold no known mark, or marks of one kind only.
    """
    bundle = read_bundle(folder)
    model = load_rag_model(bundle).to("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = SegmentTokenizer.from_file(bundle.path(TOKENIZER_NAME))
    settings = WindowSettings(bundle.info.window.size, bundle.info.window.overlap)
    examples = [example for spec in specs for example in load_source(spec, split)[0]]
    if not examples:
        raise DataError(f"{', '.join(specs)}: no row in split {split!r} to calibrate on")
    items = prepare(examples, tokenizer, settings)
    parts = list(_read(model, items, tokenizer.special.pad))
    fitted = dict(bundle.info.calibration.heads)
    for name in ("relevance", "utilization"):
        head = _Head(
            *(np.concatenate(column) for column in zip(*(p[name] for p in parts), strict=True))
        )
        scale, shift = fit_platt(head.logits, head.marks, head.weights, what=f"{name} in {split}")
        fold(cast(TokenHead, model.heads[name]), scale, shift)
        before = fitted.get(name, PlattInfo(scale=1.0, shift=0.0))
        fitted[name] = PlattInfo(scale=scale * before.scale, shift=scale * before.shift + shift)
        logger.info("%s: scale %.3f, shift %.3f on %d rows", name, scale, shift, len(items))
    calibration = CalibrationInfo(method="platt", heads=fitted, data=tuple(specs), split=split)
    # Figures of the old weights are no figures of these.
    changed = {"calibration": calibration, "graphs": (), "scores": ()}
    write_bundle(
        folder,
        bundle.info.model_copy(update=changed),
        tokenizer.to_json(),
        weights=model.cpu().state_dict(),
        encoder_config=model.architecture(),
    )
    return calibration


def fit_platt(
    logits: FloatArray, marks: IntArray, weights: FloatArray, what: str
) -> tuple[float, float]:
    """Return the scale (> 0) and the shift that fit known marks best.

    Args:
        logits: *Shape:* [T].
        marks: 1, 0, or -1 where unknown. *Shape:* [T].
        weights: How much each token counts. *Shape:* [T].
        what: Named when the marks cannot be fitted.

    Raises:
        DataError: Nothing is known, all known marks are the same, or they run against the logits.
    """
    known = marks >= 0
    if len(np.unique(marks[known])) < 2:
        raise DataError(f"{what}: needs tokens marked 1 and tokens marked 0 to calibrate on")
    regression = LogisticRegression(C=np.inf)
    regression.fit(logits[known, None], marks[known], sample_weight=weights[known])
    scale, shift = float(regression.coef_[0, 0]), float(regression.intercept_[0])
    if scale <= 0:
        raise DataError(f"{what}: the marks run against the logits (scale {scale:.3f}); not fitted")
    return scale, shift


def fold(head: TokenHead, scale: float, shift: float) -> None:
    """Change a head so that it answers scale * logit + shift."""
    with torch.no_grad():
        head.classifier.weight.mul_(scale)
        head.classifier.bias.mul_(scale).add_(shift)


def _read(
    model: RagModel, items: Sequence[Item], pad: int
) -> Iterator[dict[str, tuple[FloatArray, IntArray, FloatArray]]]:
    """Yield what the context heads say of each example's tokens, with marks and weights."""
    device = next(model.parameters()).device
    for item in items:
        windows = collate_items([item], pad).windows
        with torch.inference_mode():
            logits = model.read(*(tensor.to(device) for tensor in windows[:3]))
        at, length = windows.context_at, len(item.layout.context_row)
        weights = item.layout.context_weight * item.labelled.weight
        yield {
            name: (gather_tokens(values.cpu().reshape(-1), at)[0, :length].numpy(), marks, weights)
            for name, values, marks in (
                ("relevance", logits.relevance, item.targets.relevant),
                ("utilization", logits.utilization, item.targets.utilized),
            )
        }
