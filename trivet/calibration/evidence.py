"""The map from the evidence head's logits to sources, fitted on labelled rows."""

from __future__ import annotations

import logging

import numpy as np

from trivet.bundle.schema import EvidenceInfo
from trivet.calibration.fit import LinearMap, fit
from trivet.calibration.joining import HeadLogits, sigmoid
from trivet.errors import DataError
from trivet.measures.thresholds import DEFAULT_THRESHOLD, best_threshold

logger = logging.getLogger(__name__)


def choose_sources(pairs: HeadLogits, old: EvidenceInfo | None = None) -> EvidenceInfo:
    """Fit the map, and choose the threshold of best F1, to pairs as ``read_heads`` returns them.

    Without labels of both kinds the old map is kept, or the identity.
    """
    try:
        found = fit(pairs, "platt", what="evidence", lexical_overlap=True)
    except DataError as error:
        logger.warning("%s; the sources are not calibrated", error)
        return old or EvidenceInfo(scale=1.0, shift=0.0, threshold=DEFAULT_THRESHOLD)
    assert isinstance(found, LinearMap)
    overlap = pairs.lexical_overlap
    assert overlap is not None
    z = found.scale * pairs.logits + found.shift + found.lexical_overlap * overlap
    known = ~np.isnan(pairs.truth)
    probs, truth = sigmoid(z[known]), pairs.truth[known]
    best = best_threshold(1 - probs, truth)
    chosen = EvidenceInfo(
        scale=found.scale,
        shift=found.shift,
        lexical_overlap=found.lexical_overlap,
        threshold=1 - best.threshold if best else DEFAULT_THRESHOLD,
    )
    logger.info("evidence: %s", chosen)
    return chosen
