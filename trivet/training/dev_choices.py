"""Choices by the dev rows after training: the reduction to faithfulness, and the thresholds."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torchmetrics.functional.classification import binary_auroc

from trivet.bundle.schema import Thresholds
from trivet.data.labelled.datamodule import Item, collate_items
from trivet.data.windows import Windows
from trivet.errors import ConfigError
from trivet.measures.thresholds import DevScores, choose_thresholds
from trivet.model.aggregate import response_support
from trivet.model.architecture import Reduction
from trivet.model.rag_model import to_numpy
from trivet.training.lightning_module import RagTraining

logger = logging.getLogger(__name__)

_REDUCTIONS: tuple[Reduction, ...] = (
    "weakest_sentence",
    "two_weakest_sentences",
    "weakest_token",
)


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


def choose_reduction(scores: Sequence[DevScores]) -> Reduction:
    """Return the reduction with the highest hallucination AUROC, averaged over the sources.

    It is the first of ``_REDUCTIONS`` if all are equal or no source has responses of both kinds.
    """
    of_source: defaultdict[str, list[DevScores]] = defaultdict(list)
    for one in scores:
        if one.example.labels.adherent is not None and len(one.token_support):
            of_source[one.example.source].append(one)
    measured: dict[Reduction, float] = {}
    for reduction in _REDUCTIONS:
        values = []
        for rows in of_source.values():
            wrong = torch.tensor([int(not row.example.labels.adherent) for row in rows])
            if 0 < wrong.sum() < len(wrong):
                doubt = torch.tensor([1 - _faithfulness(row, reduction) for row in rows])
                values.append(float(binary_auroc(doubt, wrong)))
        measured[reduction] = float(np.mean(values)) if values else 0.0
    chosen = max(_REDUCTIONS, key=lambda each: measured[each])
    logger.info("faithfulness: %s, by AUROC on dev: %s", chosen, measured)
    return chosen


def _faithfulness(row: DevScores, reduction: Reduction) -> float:
    tokens, sentences = row.token_support[None], row.sentence_support[None]
    real = np.isin(np.arange(len(row.sentence_support)), row.token_sentence)[None]
    every = np.ones_like(tokens, dtype=np.bool_)
    return float(response_support(tokens, every, sentences, real, reduction)[0])


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
