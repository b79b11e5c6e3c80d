"""The LightningModule: losses, validation measures, optimizer and schedule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from torch import Tensor

from trivet.configs.schema import LossConfig, OptimConfig
from trivet.data.labelled.datamodule import Batch, truths
from trivet.data.labelled.labels import UNKNOWN
from trivet.data.windows import Windows
from trivet.heads.context_loss import sentence_cross_entropy, share_error
from trivet.heads.gradient_cosine import gradient_cosines
from trivet.heads.learned_weights import LearnedWeights
from trivet.heads.support import token_loss, verdict_loss, window_loss
from trivet.model.aggregate import Outputs, gather_tokens
from trivet.model.rag_model import RagModel, TokenLogits, join_support
from trivet.records import ConfigError
from trivet.training.divergence import stop_if_diverged
from trivet.training.micro_batching import read_in_slices
from trivet.training.validation import ValidationMeasures

# Losses of each head.
HEAD_LOSSES = {
    "support": ("window", "token", "verdict"),
    "relevance": ("relevance", "relevance_share"),
    "utilization": ("utilization", "utilization_share"),
}


class RagTraining(lightning.LightningModule):
    """Training and validation of a ``RagModel``.

    Args:
        model: Model to train.
        loss: Weights of the losses.
        optim: Learning rates, weight decay of matrices, warm-up, and windows per encoder call.
        seed: Seed of dropout, which depends on (seed, device, step) alone, so that a resumed run
            equals one that never stopped.
        cosine_steps: Steps between logs of the gradient cosines; 0: never.
        folder: Folder for ``diverged.json``.

    Raises:
        ConfigError: ``cosine_steps`` is given, and the heads share no parameters.
    """

    def __init__(
        self,
        model: RagModel,
        loss: LossConfig,
        optim: OptimConfig,
        seed: int = 0,
        cosine_steps: int = 0,
        folder: Path = Path(),
    ) -> None:
        super().__init__()
        if cosine_steps and not model.trunk.shared_parameters():
            raise ConfigError(
                f"run.gradient_cosine_steps ({cosine_steps}) must be 0 for encoder.trunk: "
                f"{model.trunk.kind}: its heads share no parameters"
            )
        self.model = model
        self.learned_weights = LearnedWeights(HEAD_LOSSES) if loss.learned else None
        self._loss, self._optim = loss, optim
        self._seed = seed
        self._cosine_steps = cosine_steps
        self._folder = folder
        self._measures = ValidationMeasures()
        # As plain values, since checkpoints are read without any code in them.
        self.save_hyperparameters({"loss": vars(loss), "optim": vars(optim), "seed": seed})
        self._step: tuple[Batch, dict[str, Tensor]] | None = None  # current batch and losses

    def losses(self, batch: Batch, logits: TokenLogits, outputs: Outputs) -> dict[str, Tensor]:
        """Return each weighted loss by its name; 0 without labels for it in the batch.

        The sum over the batch's examples is divided by the mean number of examples with labels for
        the head in a batch of the epoch (at least 1). Rows of like length share a batch, so a mean
        over the batch would weigh an example more, the more windows it has.
        """
        windows, targets, weights = batch.windows, batch.targets, self._loss
        if self.model.granularity == "example":
            # One decision per window implies no labels of single tokens: only the verdict remains.
            targets = targets._replace(
                window_class=torch.full_like(targets.window_class, UNKNOWN),
                token_supported=torch.full_like(targets.token_supported, UNKNOWN),
            )
        columns = (column.reshape(-1) for column in logits.support.unbind(-1))
        support = torch.stack([gather_tokens(each, windows.response_at) for each in columns], -1)
        tokens_known = (targets.token_supported >= 0).any(-1)
        tokens_known |= (targets.window_class >= 0).flatten(1).any(-1)
        adherent = targets.adherent
        if not weights.verdict_always:
            adherent = adherent.masked_fill(tokens_known, -1)
        # An empty response has no faithfulness.
        adherent = adherent.masked_fill((windows.response_at < 0).flatten(1).all(-1), -1)
        weight, heavier = targets.weight, weights.unsupported_weight
        window = window_loss(support, targets.window_class, weight, heavier)
        at = windows.response_at
        joined = join_support(logits.support, at, batch.is_evidence)
        token = token_loss(support, at, joined, targets.token_supported, weight, heavier)
        found = {
            "window": weights.window * window,
            "token": weights.token * token,
            "verdict": weights.verdict * verdict_loss(outputs.faithfulness, adherent, weight),
        }
        context_weight = windows.context_weight
        heads = (
            ("relevance", logits.relevance, outputs.relevance, targets.relevant),
            ("utilization", logits.utilization, outputs.utilization, targets.utilized),
        )
        for name, values, _, marks in heads:
            tokens = gather_tokens(values.reshape(-1), windows.context_at)
            loss = sentence_cross_entropy(tokens, marks, context_weight, weight)
            found[name] = getattr(weights, name) * loss
        annotated = truths(batch.examples) if weights.share else {}  # waits for the device
        for name, _, share, marks in heads:
            if not weights.share:
                found[f"{name}_share"] = share.new_zeros(())
                continue
            true = _true_share(annotated[name], marks, context_weight).to(share)
            found[f"{name}_share"] = weights.share * share_error(share, true, weight)
        return {
            name: found[name] / max(1.0, batch.mean_labelled[head])
            for head, names in HEAD_LOSSES.items()
            for name in names
        }

    def predict(self, windows: Windows, is_evidence: Tensor) -> tuple[TokenLogits, Outputs]:
        """Return logits and scores; the encoder reads at most ``optim.call_windows`` at once."""
        most = self._optim.call_windows or self._optim.batch_windows
        logits = read_in_slices(self.model, windows[:3], most)
        return logits, self.model.join(logits, *windows[3:], is_evidence)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed the step's dropout by (seed, device, step)."""
        key = np.random.SeedSequence((self._seed, self.global_rank, self.global_step))
        torch.manual_seed(int(key.generate_state(1, np.uint64)[0]))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the weighted sum of the losses, and log the losses and the sums of each head."""
        losses = self.losses(batch, *self.predict(batch.windows, batch.is_evidence))
        heads = {
            head: torch.stack([losses[name] for name in names]).sum()
            for head, names in HEAD_LOSSES.items()
        }
        figures = {f"loss/{name}": loss for name, loss in losses.items()}
        figures |= {f"head/{head}": loss for head, loss in heads.items()}
        if self.learned_weights is None:
            total = torch.stack(list(heads.values())).sum()
        else:
            total = self.learned_weights(heads)
            learned = self.learned_weights.weights()
            figures |= {f"learned_weight/{head}": weight for head, weight in learned.items()}
        if self._cosine_steps and self.global_step % self._cosine_steps == 0:
            self._log_cosines(heads)
        size = len(batch.examples)
        self.log_dict({name: value.detach() for name, value in figures.items()}, batch_size=size)
        self.log("loss/total", total.detach(), prog_bar=True, batch_size=size)
        self._step = batch, {**losses, "total": total}
        return total

    def _log_cosines(self, heads: Mapping[str, Tensor]) -> None:
        with torch.autocast(self.device.type, enabled=False):
            cosines = gradient_cosines(heads, self.model.trunk.shared_parameters())
        figures = {f"gradient_cosine/{pair}": float(value) for pair, value in cosines.items()}
        for each in self.loggers:  # self.log would repeat them in the steps between
            each.log_metrics(figures, step=self.global_step)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm of the gradient; stop if it is not finite, before the weights change."""
        limit = float("inf") if gradient_clip_val is None else float(gradient_clip_val)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters(), limit)
        self.log("gradient_norm", norm)
        assert self._step is not None
        batch, losses = self._step
        self._step = None
        file = self._folder / "diverged.json"
        stop_if_diverged({**losses, "gradient_norm": norm}, batch.examples, self.global_step, file)

    def architecture(self) -> dict[str, Any]:
        """Return the properties that a checkpoint must match, as JSON types."""
        learned = self.learned_weights is not None
        return {**self.model.architecture(), "learned_weights": learned}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the architecture to the checkpoint."""
        checkpoint["architecture"] = self.architecture()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add a dev batch to the measures."""
        self._measure(batch)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Add a test batch to the measures."""
        self._measure(batch)

    def predict_step(self, batch: Batch, batch_idx: int) -> Outputs:
        """Return the scores of a batch."""
        return self.predict(batch.windows, batch.is_evidence)[1]

    def _measure(self, batch: Batch) -> None:
        _, outputs = self.predict(batch.windows, batch.is_evidence)
        known = truths(batch.examples)
        answered = (batch.windows.response_at >= 0).flatten(1).any(-1)
        known["adherent"][~answered.cpu()] = float("nan")
        marks, weight = batch.targets, batch.windows.context_weight
        relevant = _true_share(known["relevance"], marks.relevant, weight)
        utilized = _true_share(known["utilization"], marks.utilized, weight)
        scores = {
            "faithfulness": (outputs.faithfulness, known["adherent"]),
            "relevance": (outputs.relevance, relevant),
            "utilization": (outputs.utilization, utilized),
        }
        self._measures.update([example.source for example in batch.examples], scores)

    def on_validation_epoch_end(self) -> None:
        """Log the measures and ``dev/score`` (AUROC less two errors), which chooses checkpoints."""
        self._log_measures("dev")

    def on_test_epoch_end(self) -> None:
        """Log the measures of the test rows and their ``test/score``."""
        self._log_measures("test")

    def _log_measures(self, rows: str) -> None:
        figures = self._measures.compute()
        self._measures.reset()
        score = figures.get("hallucination_auroc/mean", 0.0)
        score -= figures.get("relevance_rmse/mean", 0.0)
        score -= figures.get("utilization_rmse/mean", 0.0)
        # Equal on every device, since the measures are joined.
        self.log_dict({f"{rows}/{name}": value for name, value in figures.items()}, sync_dist=True)
        self.log(f"{rows}/score", score, prog_bar=True, sync_dist=True)

    def configure_optimizers(self) -> Any:
        """Return AdamW with rates for trunk and heads, and linear warm-up and decay."""
        groups, rates = [], {"trunk": self._optim.encoder_lr, "heads": self._optim.head_lr}
        # Like the heads, the exact-match embedding starts from random numbers.
        new = {id(p) for name, p in self.model.named_parameters() if ".matches." in name}
        new |= {id(p) for p in self.model.heads.parameters()}
        for part, rate in rates.items():
            own = [p for p in self.model.parameters() if (id(p) in new) == (part == "heads")]
            for decay in (True, False):
                chosen = [p for p in own if p.requires_grad and (p.ndim > 1) == decay]
                weight_decay = self._optim.weight_decay if decay else 0.0
                groups.append({"params": chosen, "lr": rate, "weight_decay": weight_decay})
        if self.learned_weights is not None:
            own = list(self.learned_weights.parameters())
            groups.append({"params": own, "lr": self._loss.learned_lr, "weight_decay": 0.0})
        optimizer = torch.optim.AdamW(groups)
        total = max(1, int(self.trainer.estimated_stepping_batches))
        warmup = max(1, round(total * self._optim.warmup_share))

        def share(step: int) -> float:
            return min((step + 1) / warmup, max(0.0, (total - step) / max(1, total - warmup)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
        steps = {"scheduler": schedule, "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": steps}


def _true_share(annotated: Tensor, marks: Tensor, context_weight: Tensor) -> Tensor:
    """Return the annotators' scores; the share of marked sentences where they are NaN.

    *Shapes:* [B], [B, C] x 2 -> [B]. Marks are -1 where unknown.
    """
    share = (context_weight * marks.clamp(min=0)).sum(-1).cpu()
    fill = annotated.isnan() & (marks >= 0).any(-1).cpu()
    return torch.where(fill, share, annotated)
