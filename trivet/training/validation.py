"""The figures of the training validation loop, on torchmetrics.

Point values alone, cheap enough for every epoch. The figures that are reported, with their
intervals, are made by `trivet.measures.metrics` from finished verdicts; this file imports torch
and that one does not.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed
from torchmetrics.functional import mean_squared_error
from torchmetrics.functional.classification import binary_auroc

logger = logging.getLogger(__name__)

# Each measure, and whose predictions it judges.
MEASURES = {
    "hallucination_auroc": "faithfulness",
    "relevance_rmse": "relevance",
    "utilization_rmse": "utilization",
}
SLACK = 1e-3


class ValidationMeasures:
    """AUROC of hallucination and RMSE of relevance and utilization, per source and their mean.

    `update` for each batch, `compute` once, `reset`. Everything is kept on the CPU, as float32.
    In a distributed run `compute` joins the rows of all ranks, and every rank has the same figures.
    """

    def __init__(self) -> None:
        # Predicted and true, by measure and source. *Shape of each:* [rows, 2].
        self._rows: dict[tuple[str, str], list[Tensor]] = defaultdict(list)

    def update(
        self,
        source: Sequence[str],
        faithfulness: Tensor,
        adherent: Tensor,
        relevance: Tensor,
        relevance_true: Tensor,
        utilization: Tensor,
        utilization_true: Tensor,
    ) -> None:
        """Add a batch of B examples; every tensor is [B], floating point or, for truths, bool.

        Args:
            source: The source of each example.
            faithfulness: Predicted, in [0, 1].
            adherent: 1 where the whole response is supported, 0 where not, NaN where unknown.
            relevance: Predicted, in [0, 1].
            relevance_true: In [0, 1], NaN where unknown.
            utilization: Predicted, in [0, 1].
            utilization_true: In [0, 1], NaN where unknown.

        Raises:
            ValueError: Lengths differ, or a prediction whose truth is known is outside [0, 1] or
                NaN.
        """
        pairs = {
            "faithfulness": (faithfulness, adherent),
            "relevance": (relevance, relevance_true),
            "utilization": (utilization, utilization_true),
        }
        for name, (predicted, true) in pairs.items():
            if not predicted.shape == true.shape == (len(source),):
                raise ValueError(
                    f"{name}: {len(source)} sources, predictions {tuple(predicted.shape)} and "
                    f"truths {tuple(true.shape)} must have one dimension and one length"
                )
            predicted, true = predicted.detach().float().cpu(), true.detach().float().cpu()
            known = ~torch.isnan(true)
            # Written so that NaN fails the test as well; sums of many probabilities round.
            inside = (predicted >= -SLACK) & (predicted <= 1 + SLACK)
            wrong = int((~inside & known).sum())
            if wrong:
                raise ValueError(
                    f"{name}: {wrong} of {int(known.sum())} predictions are not in [0, 1]; NaN "
                    "means that the model has diverged"
                )
            for one in sorted(set(source)):
                rows = torch.tensor([other == one for other in source]) & known
                pairs_of = torch.stack([predicted[rows].clamp(0, 1), true[rows]], dim=-1)
                self._rows[name, one].append(pairs_of)

    def compute(self) -> dict[str, float]:
        """Return ``measure/source`` for each source where it is defined, and ``measure/mean``.

        A measure that is undefined (one class only, no known truth) has no key: it is never NaN.
        The mean is over the sources where the measure is defined; where there are none, its key is
        absent too.
        """
        figures: dict[str, float] = {}
        rows = self._joined()
        for measure, name in MEASURES.items():
            values = {}
            for source in sorted(source for kept, source in rows if kept == name):
                value = _figure(measure, *rows[name, source].unbind(-1))
                if value is None:
                    logger.debug("%s is undefined for %s", measure, source)
                else:
                    values[source] = value
            figures |= {f"{measure}/{source}": value for source, value in values.items()}
            if values:
                figures[f"{measure}/mean"] = sum(values.values()) / len(values)
        return figures

    def reset(self) -> None:
        """Forget every batch."""
        self._rows.clear()

    def _joined(self) -> dict[tuple[str, str], Tensor]:
        """Return the rows of all ranks, in the order of the ranks. *Shape of each:* [rows, 2]."""
        own = {key: torch.cat(pieces) for key, pieces in self._rows.items()}
        if not (distributed.is_available() and distributed.is_initialized()):
            return own
        ranks: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(ranks, own)
        keys = {key for rank in ranks for key in rank}
        return {key: torch.cat([rank[key] for rank in ranks if key in rank]) for key in keys}


def _figure(measure: str, predicted: Tensor, true: Tensor) -> float | None:
    """Return the value of a measure, or None where it is undefined. *Shapes:* [rows] x 2.

    Classes are counted here because torchmetrics answers an undefined AUROC with 0 and a warning,
    and an empty RMSE with NaN.
    """
    if measure == "hallucination_auroc":
        hallucinated = (true < 0.5).long()
        if hallucinated.any() and not hallucinated.all():
            return float(binary_auroc(1 - predicted, hallucinated))
        return None
    return float(mean_squared_error(predicted, true, squared=False)) if len(true) else None
