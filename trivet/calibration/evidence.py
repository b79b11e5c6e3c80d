"""The map from the evidence head's logits to sources, fitted on labelled rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import torch

from trivet.bundle.evidence_info import EvidenceInfo
from trivet.calibration.fit import HeadLogits, LinearMap, fit
from trivet.calibration.head_logits import read_logits
from trivet.data.labelled.datamodule import Item
from trivet.data.labelled.labels import evidence_labels
from trivet.data.lexical_overlap import pair_overlaps
from trivet.data.windows import collate
from trivet.errors import DataError
from trivet.evaluation.packing import add_pairs, no_pairs
from trivet.measures.thresholds import DEFAULT_THRESHOLD, best_threshold
from trivet.model.rag_model import RagModel

logger = logging.getLogger(__name__)


def choose_sources(
    model: RagModel,
    items: Sequence[Item],
    pad: int,
    call_windows: int,
    old: EvidenceInfo | None = None,
) -> EvidenceInfo | None:
    """Fit the map, and choose the threshold of best F1 of the pairs; None without the head.

    Without labels of both kinds the old map is kept, or the identity.
    """
    if "evidence" not in model.heads:
        return None
    pairs = read_pairs(model, items, pad, call_windows)
    try:
        found = fit(pairs, "platt", what="evidence", lexical_overlap=True)
    except DataError as error:
        logger.warning("%s; the sources are not calibrated", error)
        return old or EvidenceInfo(scale=1.0, shift=0.0, threshold=DEFAULT_THRESHOLD)
    assert isinstance(found, LinearMap)
    overlap = pairs.lexical_overlap
    assert overlap is not None
    z = found.scale * pairs.logits + found.shift + found.lexical_overlap * overlap
    known = ~pairs.truth.isnan()
    probs, truth = z[known].sigmoid().numpy(), pairs.truth[known].numpy()
    best = best_threshold(1 - probs, truth)
    chosen = EvidenceInfo(
        scale=found.scale,
        shift=found.shift,
        lexical_overlap=found.lexical_overlap,
        threshold=1 - best.threshold if best else DEFAULT_THRESHOLD,
    )
    logger.info("evidence: %s", chosen)
    return chosen


def read_pairs(model: RagModel, items: Sequence[Item], pad: int, call_windows: int) -> HeadLogits:
    """Return the logits of all pairs of sentences, by a model in eval mode, and their labels."""
    rows = [_read(model, item, pad, call_windows) for item in items]
    logits, truth, overlap = (
        torch.from_numpy(np.concatenate(parts).astype(np.float64))
        for parts in zip(*rows, strict=True)
    )
    row = torch.from_numpy(np.repeat(np.arange(len(rows)), [len(each[0]) for each in rows]))
    weight = torch.tensor([item.labelled.weight for item in items], dtype=torch.float64)
    return HeadLogits(
        logits=logits,
        token=None,
        sentence=torch.arange(len(logits)),
        row=row,
        truth=truth,
        verdict=torch.full_like(weight, torch.nan),
        weight=weight,
        lexical_overlap=overlap,
    )


def _read(
    model: RagModel, item: Item, pad: int, call_windows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logits, labels and overlaps of the known pairs of one example."""
    labels = evidence_labels(item.labelled, item.tokenized)
    known = labels >= 0
    if not known.any():
        return (np.zeros(0),) * 3
    windows = [torch.from_numpy(array) for array in collate([item.layout], pad)[:3]]
    states = read_logits(model, windows, call_windows, ["evidence"])["evidence"].numpy()
    logits = no_pairs(item.layout)
    add_pairs(logits, item.layout, states, item.layout.response_sentence)
    overlaps = np.stack(list(pair_overlaps(item.tokenized)))
    known &= np.isfinite(logits)  # -inf: no window shows both sentences (``support_windows``)
    return logits[known], labels[known], overlaps[known]
