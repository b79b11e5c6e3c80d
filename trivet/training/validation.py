"""Measures of the validation loop, by torchmetrics: point values, without intervals."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, distributed
from torchmetrics.functional import mean_squared_error
from torchmetrics.functional.classification import binary_auroc

logger = logging.getLogger(__name__)

# Measures and the score that each is computed from.
MEASURES = {
    "hallucination_auroc": "faithfulness",
    "relevance_rmse": "relevance",
    "utilization_rmse": "utilization",
    "evidence_auroc": "evidence",
}
SLACK = 1e-3


class ValidationMeasures:
    """AUROC of hallucination and of evidence, and RMSE of relevance and utilization.

    Each per source, and their mean.

    Call `update` for each batch, `compute` once, then `reset`. In a distributed run `compute` joins
    the rows of all ranks, so every rank has the same figures.
    """

    def __init__(self) -> None:
        # Predicted and true, by score and source. *Shape of each:* [rows, 2], float32, on the CPU.
        self._rows: dict[tuple[str, str], list[Tensor]] = defaultdict(list)

    def update(self, source: Sequence[str], scores: Mapping[str, tuple[Tensor, Tensor]]) -> None:
        """Add a batch of B examples.

        Args:
            source: Source of each example.
            scores: Prediction in [0, 1] and truth (NaN where unknown) of ``faithfulness``,
                ``relevance``, ``utilization`` or, of pairs, ``evidence``. *Shape of each:* [B].

        Raises:
            ValueError: A prediction whose truth is known is outside [0, 1] or NaN.
        """
        for name, (predicted, true) in scores.items():
            predicted, true = predicted.detach().float().cpu(), true.detach().float().cpu()
            known = ~torch.isnan(true)
            # NaN fails this test as well; the slack is for the rounding of sums.
            inside = (predicted >= -SLACK) & (predicted <= 1 + SLACK)
            wrong = int((~inside & known).sum())
            if wrong:
                raise ValueError(
                    f"{name}: {wrong} of {int(known.sum())} predictions are not in [0, 1]; NaN "
                    "means that the model has diverged"
                )
            for source_name in sorted(set(source)):
                rows = torch.tensor([other == source_name for other in source]) & known
                kept = torch.stack([predicted[rows].clamp(0, 1), true[rows]], dim=-1)
                self._rows[name, source_name].append(kept)

    def compute(self) -> dict[str, float]:
        """Return ``measure/source`` for each source where it is defined, and ``measure/mean``.

        An undefined measure (one class only, no known truth) has no key; the mean is over the
        sources where it is defined.
        """
        figures: dict[str, float] = {}
        rows = self._joined()
        for measure, name in MEASURES.items():
            values = {}
            for source in sorted(source for kept, source in rows if kept == name):
                value = _value(measure, *rows[name, source].unbind(-1))
                if value is None:
                    logger.debug("%s is undefined for %s", measure, source)
                else:
                    values[source] = value
            figures |= {f"{measure}/{source}": value for source, value in values.items()}
            if values:
                figures[f"{measure}/mean"] = sum(values.values()) / len(values)
        return figures

    def reset(self) -> None:
        """Remove all rows."""
        self._rows.clear()

    def _joined(self) -> dict[tuple[str, str], Tensor]:
        """Return the rows of all ranks, in the order of the ranks. *Shape of each:* [rows, 2]."""
        joined = {key: torch.cat(pieces) for key, pieces in self._rows.items()}
        if not (distributed.is_available() and distributed.is_initialized()):
            return joined
        ranks: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(ranks, joined)
        keys = {key for rank in ranks for key in rank}
        return {key: torch.cat([rank[key] for rank in ranks if key in rank]) for key in keys}


def _value(measure: str, predicted: Tensor, true: Tensor) -> float | None:
    """Return the value of a measure; None if undefined. *Shapes:* [rows] each.

    Classes are counted first: torchmetrics returns 0 and a warning for an undefined AUROC, and NaN
    for an empty RMSE.
    """
    if measure.endswith("_auroc"):
        wrong = (true < 0.5).long()
        if wrong.any() and not wrong.all():
            return float(binary_auroc(1 - predicted, wrong))
        return None
    return float(mean_squared_error(predicted, true, squared=False)) if len(true) else None
