"""The figures of the training validation loop, on torchmetrics.

Point values alone, cheap enough for every epoch. The figures that are reported, with their
intervals, are made by `trivet.metrics` from finished verdicts; this file imports torch and that one
does not.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import MeanSquaredError
from torchmetrics.classification import BinaryAUROC

logger = logging.getLogger(__name__)

MEASURES = ("hallucination_auroc", "relevance_rmse", "utilization_rmse")
SLACK = 1e-3


class ValidationMeasures:
    """AUROC of hallucination and RMSE of relevance and utilization, per source and their mean.

    `update` for each batch, `compute` once, `reset`. Everything is kept on the CPU, as float32.
    Only the rows of this process are counted: in a distributed run each rank has its own figures,
    never a half-joined one.
    """

    def __init__(self) -> None:
        self._sources: dict[str, _SourceMeasures] = defaultdict(_SourceMeasures)

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
                self._sources[one].update(name, predicted[rows].clamp(0, 1), true[rows])

    def compute(self) -> dict[str, float]:
        """Return ``measure/source`` for each source where it is defined, and ``measure/mean``.

        A measure that is undefined (one class only, no known truth) has no key: it is never NaN.
        The mean is over the sources where the measure is defined; where there are none, its key is
        absent too.
        """
        figures: dict[str, float] = {}
        for measure in MEASURES:
            values = {}
            for source in sorted(self._sources):
                value = self._sources[source].compute(measure)
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
        self._sources.clear()


class _SourceMeasures:
    """The three measures of one source.

    Classes are counted here because torchmetrics answers an undefined AUROC with 0 and a warning,
    and an empty RMSE with NaN. Its own joining over ranks is off, see `ValidationMeasures`.
    """

    def __init__(self) -> None:
        self.auroc = BinaryAUROC(sync_on_compute=False)
        self.errors = {
            name: MeanSquaredError(squared=False, sync_on_compute=False)
            for name in ("relevance", "utilization")
        }
        self.hallucinated = 0
        self.adherent = 0
        self.rows = dict.fromkeys(self.errors, 0)

    def update(self, name: str, predicted: Tensor, true: Tensor) -> None:
        """Add the rows of one measure, all of them known."""
        if not len(predicted):
            return
        if name == "faithfulness":
            hallucinated = (true < 0.5).long()
            self.auroc.update(1 - predicted, hallucinated)
            self.hallucinated += int(hallucinated.sum())
            self.adherent += int((1 - hallucinated).sum())
        else:
            self.errors[name].update(predicted, true)
            self.rows[name] += len(predicted)

    def compute(self, measure: str) -> float | None:
        """Return the value of a measure, or None where it is undefined."""
        if measure == "hallucination_auroc":
            defined = self.hallucinated and self.adherent
            return float(self.auroc.compute()) if defined else None
        name = measure.removesuffix("_rmse")
        return float(self.errors[name].compute()) if self.rows[name] else None
