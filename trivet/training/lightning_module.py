"""The LightningModule: losses, validation measures, optimizer and schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from torch import Tensor

from trivet.configs.schema import LossConfig, OptimConfig
from trivet.data.windows import Windows
from trivet.errors import ConfigError
from trivet.heads import HEAD_NAMES, HEADS, HeadName
from trivet.heads.losses import (
    evidence_cross_entropy,
    gradient_cosines,
    sentence_cross_entropy,
    share_error,
    similarity_error,
)
from trivet.heads.support import (
    opposites_loss,
    token_loss,
    verdict_loss,
    window_loss,
)
from trivet.labelled.datamodule import Batch
from trivet.model.aggregate import Outputs, gather_tokens
from trivet.model.rag_model import (
    RagModel,
    TokenLogits,
    gather_classes,
    join_support,
    pair_logits,
    question_similarity,
)
from trivet.model.slices import read_in_slices
from trivet.training.checkpoints import stop_if_diverged
from trivet.training.teacher import Teacher
from trivet.training.validation import ValidationMeasures

_TAUGHT = "teacher_"  # names of the losses against a teacher begin like this

COSINE = "gradient_cosine/"  # names of their figures begin like this


class RagTraining(lightning.LightningModule):
    """Training and validation of a ``RagModel``.

    Args:
        model: Model to train.
        loss: Weights of the losses.
        optim: Learning rates, weight decay of matrices, warm-up, largest norm of the gradient, and
            windows per encoder call.
        seed: Seed of dropout, which depends on (seed, device, step) alone, so that a resumed run
            equals one that never stopped.
        cosine_steps: Steps between logs of the gradient cosines; 0: never.
        folder: Folder for ``diverged.json``.
        teacher: Model whose logits are further targets of the trained heads.

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
        teacher: Teacher | None = None,
    ) -> None:
        super().__init__()
        trained = trained_heads(model, loss)
        if cosine_steps and len(trained) < 2:
            raise ConfigError(
                f"run.gradient_cosine_steps ({cosine_steps}) must be 0 with one trained head "
                f"({', '.join(trained)})"
            )
        if cosine_steps and not model.trunk.shared_parameters():
            raise ConfigError(
                f"run.gradient_cosine_steps ({cosine_steps}) must be 0 for encoder.trunk: "
                f"{model.trunk.kind}: its heads share no parameters"
            )
        self.model = model
        self.active_heads = trained
        for head in (name for name in HEAD_NAMES if name in model.heads and name not in trained):
            model.freeze(head)
        if optim.encoder_lr == 0:
            model.trunk.requires_grad_(False)
        self._loss, self._optim = loss, optim
        self._seed = seed
        self._cosine_steps = cosine_steps
        self._folder = folder
        self._teacher = teacher
        self._measures = ValidationMeasures()
        # As plain values, since checkpoints are read without any code in them.
        self.save_hyperparameters({"loss": vars(loss), "optim": vars(optim), "seed": seed})
        self._step: tuple[Batch, dict[str, Tensor]] | None = None  # current batch and losses

    def losses(self, batch: Batch, logits: TokenLogits, outputs: Outputs) -> dict[str, Tensor]:
        """Return each weighted loss by its name; 0 without labels for it in the batch.

        A loss of weight 0 is neither computed nor returned, nor are those of heads without logits.
        The sum over the batch's examples is divided by the mean number of examples with labels for
        the head in a batch of the epoch (at least 1). Rows of like length share a batch, so a mean
        over the batch would weigh an example more, the more windows it has.
        """
        losses: dict[str, Tensor] = {}
        if "support" in logits:
            losses |= self._support_losses(batch, logits["support"], outputs)
        shares = {"relevance": outputs.relevance, "utilization": outputs.utilization}
        for head in (name for name in shares if name in logits):
            losses |= self._context_losses(head, batch, logits[head], shares[head])
        if "evidence" in logits and self._loss.evidence:
            pairs = pair_logits(logits["evidence"], *batch.pairs[:2])
            loss = evidence_cross_entropy(pairs, *batch.pairs[2:], batch.targets.weight)
            losses["evidence"] = self._loss.evidence * loss
        if "evidence" in logits and self._loss.similarity:
            windows = batch.windows
            states = logits["evidence"]
            with torch.autocast(states.device.type, enabled=False):
                similarity = question_similarity(states, *windows[1:3], windows.context_at)
            cosine, weight = batch.targets.cosine, batch.targets.weight
            loss = similarity_error(similarity, cosine, windows.context_weight, weight)
            losses["similarity"] = self._loss.similarity * loss
        counted = {"similarity": "relevance"}  # its rows are those with labels of relevance
        return {
            name: losses[name] / max(1.0, batch.mean_labelled[counted.get(name, head)])
            for head in HEADS
            for name in HEADS[head].losses
            if name in losses
        }

    def _support_losses(self, batch: Batch, logits: Tensor, outputs: Outputs) -> dict[str, Tensor]:
        """Return the sums over examples of the support head's weighted losses, by name."""
        windows, targets, weights = batch.windows, batch.targets, self._loss
        # One decision per window implies no labels of single tokens: only the verdict remains.
        each_token = self.model.granularity == "token"
        weight, at = targets.weight, windows.response_at
        tokens_known = torch.zeros_like(targets.adherent, dtype=torch.bool)
        losses: dict[str, Tensor] = {}
        if each_token:
            tokens_known = (targets.token_supported >= 0).any(-1)
            tokens_known |= (targets.window_class >= 0).flatten(1).any(-1)
        if each_token and (weights.window or weights.token):
            support = gather_classes(logits, at)
            if weights.window:
                loss = window_loss(support, targets.window_class, weight)
                losses["window"] = weights.window * loss
            if weights.token:
                joined = join_support(logits, at, batch.is_evidence)
                loss = token_loss(support, at, joined, targets.token_supported, weight)
                losses["token"] = weights.token * loss
        if weights.verdict:
            adherent = targets.adherent
            if not weights.verdict_always:
                adherent = adherent.masked_fill(tokens_known, -1)
            # An empty response has no faithfulness.
            adherent = adherent.masked_fill((at < 0).flatten(1).all(-1), -1)
            losses["verdict"] = weights.verdict * verdict_loss(
                outputs.faithfulness, adherent, weight
            )
        if weights.opposites:
            loss = opposites_loss(outputs.faithfulness, batch.opposites, weight)
            losses["opposites"] = weights.opposites * loss
        return losses

    def _context_losses(
        self, head: str, batch: Batch, logits: Tensor, share: Tensor
    ) -> dict[str, Tensor]:
        """Return the sums over examples of a context head's weighted losses, by name."""
        windows, targets, weights = batch.windows, batch.targets, self._loss
        marks = targets.relevant if head == "relevance" else targets.utilized
        losses: dict[str, Tensor] = {}
        if factor := getattr(weights, head):
            tokens = gather_tokens(logits.reshape(-1), windows.context_at)
            loss = sentence_cross_entropy(tokens, marks, windows.context_weight, targets.weight)
            losses[head] = factor * loss
        if weights.share:
            true = _true_share(batch.truths[head], marks, windows.context_weight)
            losses[f"{head}_share"] = weights.share * share_error(share, true, targets.weight)
        return losses

    def predict(
        self, windows: Windows, is_evidence: Tensor, heads: Collection[str] | None = None
    ) -> tuple[TokenLogits, Outputs]:
        """Return logits and scores of some heads, by default all.

        The encoder reads at most ``optim.call_windows`` at once.
        """
        logits = read_in_slices(self.model, windows[:3], self._optim.call_windows, heads)
        return logits, self.model.join(logits, *windows[1:], is_evidence)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed the step's dropout by (seed, device, step)."""
        key = np.random.SeedSequence((self._seed, self.global_rank, self.global_step))
        torch.manual_seed(int(key.generate_state(1, np.uint64)[0]))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the weighted sum of the losses, and log the losses and the sums of each head."""
        predicted = self.predict(batch.windows, batch.is_evidence, self.active_heads)
        losses = self.losses(batch, *predicted)
        rows = max(1.0, batch.mean_labelled["teacher"])
        if self._teacher is not None:
            taught = self._teacher.losses(batch, predicted[0])
            losses |= {f"{_TAUGHT}{head}": loss / rows for head, loss in taught.items()}
        heads: dict[str, Tensor] = {}
        for head in self.active_heads:
            names = (*HEADS[head].losses, f"{_TAUGHT}{head}")
            heads[head] = torch.stack([losses[name] for name in names if name in losses]).sum()
        figures = {f"loss/{name}": loss for name, loss in losses.items()}
        figures |= {f"head/{head}": loss for head, loss in heads.items()}
        total = torch.stack(list(heads.values())).sum()
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
        figures = {f"{COSINE}{pair}": float(value) for pair, value in cosines.items()}
        for experiment_logger in self.loggers:  # self.log would repeat them in the steps between
            experiment_logger.log_metrics(figures, step=self.global_step)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: int | float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the norm of the gradient; stop if it is not finite, before the weights change.

        The limit is ``optim.clip``, or the trainer's if it has one; the trainer's 0 means none.
        """
        limit = self._optim.clip if gradient_clip_val is None else float(gradient_clip_val)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters(), limit or float("inf"))
        self.log("gradient_norm", norm)
        assert self._step is not None
        batch, losses = self._step
        self._step = None
        file = self._folder / "diverged.json"
        stop_if_diverged({**losses, "gradient_norm": norm}, batch.examples, self.global_step, file)

    def architecture(self) -> dict[str, Any]:
        """Return the properties that a checkpoint must match, as JSON types."""
        return self.model.architecture().to_json()

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
        known = batch.truths
        answered = (batch.windows.response_at >= 0).flatten(1).any(-1)
        adherent = known["adherent"].masked_fill(~answered, float("nan"))
        marks, weight = batch.targets, batch.windows.context_weight
        relevant = _true_share(known["relevance"], marks.relevant, weight)
        utilized = _true_share(known["utilization"], marks.utilized, weight)
        scores = {
            "faithfulness": (outputs.faithfulness, adherent),
            "relevance": (outputs.relevance, relevant),
            "utilization": (outputs.utilization, utilized),
        }
        scores = {name: pair for name, pair in scores.items() if pair[0] is not None}
        sources = [example.source for example in batch.examples]
        self._measures.update(sources, scores)
        if outputs.evidence_states is not None:
            pairs = batch.pairs
            logits = pair_logits(outputs.evidence_states, *pairs[:2])
            labelled = pairs.share > 0
            pair_sources = [sources[pairs.example[n]] for n in labelled.nonzero()[:, 0]]
            self._measures.update(
                pair_sources, {"evidence": (logits[labelled].sigmoid(), pairs.supports[labelled])}
            )

    def on_validation_epoch_end(self) -> None:
        """Log the measures and ``dev/score``, which chooses checkpoints.

        It is the AUROC of responses less two errors, plus the AUROC of pairs: of the trained heads.
        """
        self._log_measures("dev")

    def on_test_epoch_end(self) -> None:
        """Log the measures of the test rows and their ``test/score``."""
        self._log_measures("test")

    def _log_measures(self, rows: str) -> None:
        figures = self._measures.compute()
        self._measures.reset()
        score = sum(
            sign * figures.get(f"{name}/mean", 0.0)
            for head in self.active_heads
            for sign, name in [HEADS[head].measure]
        )
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
            parameters = [p for p in self.model.parameters() if (id(p) in new) == (part == "heads")]
            for decay in (True, False):
                chosen = [p for p in parameters if p.requires_grad and (p.ndim > 1) == decay]
                weight_decay = self._optim.weight_decay if decay else 0.0
                groups.append({"params": chosen, "lr": rate, "weight_decay": weight_decay})
        optimizer = torch.optim.AdamW(groups)
        total = max(1, int(self.trainer.estimated_stepping_batches))
        warmup = max(1, round(total * self._optim.warmup_share))

        def share(step: int) -> float:
            return min((step + 1) / warmup, max(0.0, (total - step) / max(1, total - warmup)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
        steps = {"scheduler": schedule, "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": steps}


def trained_heads(model: RagModel, loss: LossConfig) -> tuple[HeadName, ...]:
    """Return the heads of a model with a loss of a weight above 0."""
    if model.granularity == "example":
        loss = replace(loss, window=0.0, token=0.0)
    return tuple(name for name in HEAD_NAMES if name in model.heads and loss.of_head(name) > 0)


def _true_share(annotated: Tensor, marks: Tensor, context_weight: Tensor) -> Tensor:
    """Return the annotators' scores; the share of marked sentences where they are NaN.

    *Shapes:* [B], [B, C] x 2 -> [B]. Marks are -1 where unknown.
    """
    share = (context_weight * marks.clamp(min=0)).sum(-1)
    fill = annotated.isnan() & (marks >= 0).any(-1)
    return torch.where(fill, share, annotated)
