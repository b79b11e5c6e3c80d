"""What training minimises and watches: a thin LightningModule around ``RagModel``."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from torch import Tensor

from trivet.configs.schema import LossConfig
from trivet.data.module import Batch, truths
from trivet.heads.context_loss import share_error
from trivet.heads.relevance import relevance_loss
from trivet.heads.support import token_loss, verdict_loss, window_loss
from trivet.heads.utilization import utilization_loss
from trivet.model.aggregate import Outputs, gather_tokens
from trivet.model.rag_model import RagModel, TokenLogits
from trivet.validation import ValidationMeasures


class RagTraining(lightning.LightningModule):
    """Losses, dev measures and the schedule around a ``RagModel``.

    Args:
        model: The model to train.
        loss: Weights of the losses.
        encoder_lr: Peak learning rate of the trunk.
        head_lr: Peak learning rate of the heads.
        weight_decay: Of matrices; biases and norms have none.
        warmup_share: Share of all steps in which the rate rises.
    """

    def __init__(
        self,
        model: RagModel,
        loss: LossConfig,
        encoder_lr: float,
        head_lr: float,
        weight_decay: float,
        warmup_share: float,
    ) -> None:
        super().__init__()
        self.model = model
        self._loss = loss
        self._rates = {"trunk": encoder_lr, "heads": head_lr}
        self._weight_decay = weight_decay
        self._warmup_share = warmup_share
        self._measures = ValidationMeasures()

    def losses(self, batch: Batch, logits: TokenLogits, outputs: Outputs) -> dict[str, Tensor]:
        """Return each weighted loss by its name; 0 where a batch knows nothing of it."""
        windows, targets, weights = batch.windows, batch.targets, self._loss
        support = torch.stack(
            [
                gather_tokens(logits.support[..., c].reshape(-1), windows.response_at)
                for c in range(3)
            ],
            dim=-1,
        )
        marks = (windows.context_weight, targets.weight)
        relevance, utilization = (
            gather_tokens(values.reshape(-1), windows.context_at)
            for values in (logits.relevance, logits.utilization)
        )
        tokens_known = (targets.token_supported >= 0).any(-1) | (targets.window_class >= 0).flatten(
            1
        ).any(-1)
        adherent = targets.adherent
        if not weights.verdict_always:
            adherent = adherent.masked_fill(tokens_known, -1)
        # Without a response there is nothing to be faithful.
        adherent = adherent.masked_fill((windows.response_at < 0).flatten(1).all(-1), -1)
        heavier = weights.unsupported_weight
        return {
            "window": weights.window
            * window_loss(support, targets.window_class, targets.weight, heavier),
            "token": weights.token
            * token_loss(
                support, windows.response_at, targets.token_supported, targets.weight, heavier
            ),
            "verdict": weights.verdict
            * verdict_loss(outputs.faithfulness, adherent, targets.weight),
            "relevance": weights.relevance * relevance_loss(relevance, targets.relevant, *marks),
            "utilization": weights.utilization
            * utilization_loss(utilization, targets.utilized, *marks),
            "share": weights.share * self._share_error(batch, outputs),
        }

    def _share_error(self, batch: Batch, outputs: Outputs) -> Tensor:
        known, targets = truths(batch.examples), batch.targets
        context_weight = batch.windows.context_weight
        errors = [
            share_error(
                predicted,
                _true_share(annotated, marks, context_weight).to(predicted),
                targets.weight,
            )
            for predicted, annotated, marks in (
                (outputs.relevance, known["relevance"], targets.relevant),
                (outputs.utilization, known["utilization"], targets.utilized),
            )
        ]
        return torch.stack(errors).sum()

    def _judge(self, batch: Batch) -> tuple[TokenLogits, Outputs]:
        logits = self.model.read(*batch.windows[:3])
        return logits, self.model.join(logits, *batch.windows[3:])

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the weighted sum of the losses; each is logged by its own name."""
        losses = self.losses(batch, *self._judge(batch))
        total = torch.stack(list(losses.values())).sum()
        size = len(batch.examples)
        self.log_dict({f"loss/{name}": loss for name, loss in losses.items()}, batch_size=size)
        self.log("loss/total", total, prog_bar=True, batch_size=size)
        return total

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add a batch of dev to the measures."""
        _, outputs = self._judge(batch)
        known = truths(batch.examples)
        answered = (batch.windows.response_at >= 0).flatten(1).any(-1)
        known["adherent"][~answered.cpu()] = float("nan")
        marks, weight = batch.targets, batch.windows.context_weight
        self._measures.update(
            source=[example.source for example in batch.examples],
            faithfulness=outputs.faithfulness,
            adherent=known["adherent"],
            relevance=outputs.relevance,
            relevance_true=_true_share(known["relevance"], marks.relevant, weight),
            utilization=outputs.utilization,
            utilization_true=_true_share(known["utilization"], marks.utilized, weight),
        )

    def on_validation_epoch_end(self) -> None:
        """Log every measure, and the one number that chooses: AUROC less the two errors."""
        figures = self._measures.compute()
        self._measures.reset()
        score = (
            figures.get("hallucination_auroc/mean", 0.0)
            - figures.get("relevance_rmse/mean", 0.0)
            - figures.get("utilization_rmse/mean", 0.0)
        )
        self.log_dict({f"dev/{name}": value for name, value in figures.items()})
        self.log("dev/score", score, prog_bar=True)

    def configure_optimizers(self) -> Any:
        """AdamW with a rate for the trunk and one for the heads, linear warm-up and decay."""
        groups = []
        for part, rate in self._rates.items():
            named = list(getattr(self.model, part).named_parameters())
            for decay in (True, False):
                chosen = [p for _, p in named if p.requires_grad and (p.ndim > 1) == decay]
                groups.append(
                    {
                        "params": chosen,
                        "lr": rate,
                        "weight_decay": self._weight_decay if decay else 0.0,
                    }
                )
        optimizer = torch.optim.AdamW(groups)
        total = max(1, int(self.trainer.estimated_stepping_batches))
        warmup = max(1, round(total * self._warmup_share))

        def share(step: int) -> float:
            return min((step + 1) / warmup, max(0.0, (total - step) / max(1, total - warmup)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


def _true_share(annotated: Tensor, marks: Tensor, context_weight: Tensor) -> Tensor:
    """Fill in the share of the marked sentences where the annotators gave no score of their own.

    Args:
        annotated: NaN where there is none. *Shape:* [B].
        marks: 1, 0, or -1 where unknown. *Shape:* [B, C].
        context_weight: *Shape:* [B, C].
    """
    share = (context_weight * marks.clamp(min=0)).sum(-1).cpu()
    fill = annotated.isnan() & (marks >= 0).any(-1).cpu()
    return torch.where(fill, share, annotated)
