"""Thresholds, chosen on the dev rows after training."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from trivet.bundle.schema import Thresholds
from trivet.data.labelled.datamodule import Item, collate_items
from trivet.data.windows import Windows
from trivet.errors import ConfigError
from trivet.measures.thresholds import DevScores, choose_thresholds
from trivet.model.rag_model import to_numpy
from trivet.training.lightning_module import RagTraining

logger = logging.getLogger(__name__)


def threshold_rows(dev: Sequence[Item], prefixes: Sequence[str]) -> list[Item]:
    """Return the dev rows whose source begins with one of the prefixes; all rows without any.

    Raises:
        ConfigError: There is no such row.
    """
    wanted = tuple(prefixes) or ("",)  # every name begins with ""
    chosen = [item for item in dev if item.labelled.source.startswith(wanted)]
    if not chosen:
        raise ConfigError(f"data.thresholds_from {list(prefixes)}: no dev row has such a source")
    return chosen


def choose_on_dev(training: RagTraining, items: Sequence[Item], pad: int) -> Thresholds | None:
    """Return the thresholds that the rows choose; None without a support head."""
    if "support" not in training.model.heads:
        return None
    chosen = Thresholds(*choose_thresholds(list(dev_scores(training, items, pad))))
    logger.info("thresholds chosen on %d dev examples: %s", len(items), chosen)
    return chosen


def dev_scores(training: RagTraining, items: Sequence[Item], pad: int) -> Iterator[DevScores]:
    """Yield the scores of each row, read alone."""
    device = next(training.model.parameters()).device
    for item in items:
        batch = collate_items([item], pad)
        windows = Windows(*(array.to(device) for array in batch.windows))
        _, predicted = training.predict(windows, batch.is_evidence.to(device))
        outputs = to_numpy(predicted)
        support = outputs.sentence_support[0], outputs.support_probs[0], outputs.faithfulness[0]
        yield DevScores.of(item.labelled, item.tokenized, *support)
