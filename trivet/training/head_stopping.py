"""Early stopping of each head by its own measure on dev."""

from __future__ import annotations

import logging
from typing import Any

import lightning

from trivet.model.architecture import HeadName
from trivet.training.lightning_module import HEAD_MEASURES, RagTraining

logger = logging.getLogger(__name__)


class HeadStopping(lightning.Callback):
    """Ends the training of a head whose dev measure has not improved for some validations.

    The losses of a stopped head are left out, and its weights stay (with ``optim.ema_decay`` their
    average still approaches them); the encoder learns from the other heads. A head without a value
    of its measure is not stopped. The run ends with its last head.

    Args:
        patience: Number of validations in a row without improvement, at least 1.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._best: dict[str, float] = {}
        self._waited: dict[str, int] = {}
        self._stopped: list[HeadName] = []

    def on_train_start(self, trainer: lightning.Trainer, pl_module: Any) -> None:
        """Leave out the heads that were stopped before a resumed run was interrupted."""
        for head in self._stopped:
            pl_module.stop_head(head)
        trainer.should_stop |= not pl_module.active_heads

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: Any) -> None:
        """Stop heads by the measures of this validation."""
        module: RagTraining = pl_module
        for head in module.active_heads:
            sign, measure = HEAD_MEASURES[head]
            value = trainer.callback_metrics.get(f"dev/{measure}/mean")
            if value is None:
                continue
            score = sign * float(value)
            if score > self._best.get(head, float("-inf")):
                self._best[head], self._waited[head] = score, 0
                continue
            self._waited[head] += 1
            if self._waited[head] >= self._patience:
                logger.info(
                    "%s is no longer trained: %s is %.3f, and was %.3f %d validations ago",
                    *(head, measure, sign * score, sign * self._best[head], self._waited[head]),
                )
                self._stopped.append(head)
                module.stop_head(head)
        trainer.should_stop |= not module.active_heads

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs, as plain values."""
        return {"best": self._best, "waited": self._waited, "stopped": self._stopped}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up the state of an interrupted run."""
        self._best, self._waited = state_dict["best"], state_dict["waited"]
        self._stopped = state_dict["stopped"]
