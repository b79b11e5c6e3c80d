"""Losses against a teacher's logits on the same windows."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from trivet.data.labelled.datamodule import Batch
from trivet.heads.teacher_loss import class_loss, mark_loss, pair_loss
from trivet.model.aggregate import gather_tokens
from trivet.model.rag_model import gather_classes, pair_logits


def soft_target_losses(
    batch: Batch, logits: Mapping[str, Tensor], targets: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the sum over examples of each head's cross-entropy, for the heads with targets.

    The targets are the probabilities of their logits before calibration.
    """
    windows, weight = batch.windows, batch.targets.weight
    losses: dict[str, Tensor] = {}
    if "support" in targets:
        at = windows.response_at
        ours, theirs = (gather_classes(each["support"], at) for each in (logits, targets))
        losses["support"] = class_loss(ours, theirs, at >= 0, weight)
    for head in (each for each in ("relevance", "utilization") if each in targets):
        ours, theirs = (
            gather_tokens(each[head].reshape(-1), windows.context_at) for each in (logits, targets)
        )
        losses[head] = mark_loss(ours, theirs, windows.context_weight, weight)
    if "evidence" in targets:
        pools = batch.pairs[:2]
        ours, theirs = (pair_logits(each["evidence"], *pools) for each in (logits, targets))
        response, context = (pool.amax(dim=-1) > 0 for pool in pools)
        real = (response[:, :, None] & context[:, None, :]).to(weight)
        losses["evidence"] = pair_loss(ours, theirs, real, batch.pairs.example, weight)
    return losses
