"""What a run tells while it goes: a bar or plain lines on stderr, and the loggers asked for."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback, RichProgressBar
from lightning.pytorch.loggers import (
    CSVLogger,
    Logger,
    MLFlowLogger,
    TensorBoardLogger,
    WandbLogger,
)

from trivet.records import ConfigError

logger = logging.getLogger(__name__)

_HEADS = ("support", "relevance", "utilization")
_LATEST = 50  # steps that a rate is taken over


class Throughput:
    """Examples and windows a second over the latest steps, and the time left."""

    def __init__(self, steps_left: int) -> None:
        self._steps_left = steps_left
        self._begun: float | None = None
        self._steps = 0
        self._latest: deque[tuple[float, int, int]] = deque(maxlen=_LATEST)

    def begin(self, now: float) -> None:
        """Start counting at ``now``, in seconds; begin again after a pause."""
        self._begun = now if self._begun is None else self._begun
        self._latest.clear()
        self._latest.append((now, 0, 0))

    def add(self, now: float, examples: int, windows: int) -> None:
        """Count a step that ended at ``now``."""
        self._steps += 1
        self._steps_left -= 1
        self._latest.append((now, examples, windows))

    def rates(self) -> tuple[float, float]:
        """Return examples and windows a second; 0 before the first step."""
        seconds = self._latest[-1][0] - self._latest[0][0] if self._latest else 0.0
        if seconds <= 0:
            return 0.0, 0.0
        done = list(self._latest)[1:]  # the first opens the clock
        return sum(step[1] for step in done) / seconds, sum(step[2] for step in done) / seconds

    def left(self) -> timedelta | None:
        """Return the time left, pauses included; None before the first step."""
        if self._begun is None or not self._steps:
            return None
        seconds = (self._latest[-1][0] - self._begun) / self._steps * max(0, self._steps_left)
        return timedelta(seconds=round(seconds))


class _Watch(Callback):
    """Keeps a ``Throughput``; the two ways of showing it add how."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.throughput = Throughput(0)

    def on_train_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        super().on_train_start(trainer, pl_module)
        total = int(trainer.estimated_stepping_batches)
        self.throughput = Throughput(total - trainer.global_step)
        self.throughput.begin(time.monotonic())

    def on_validation_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        super().on_validation_end(trainer, pl_module)
        self.throughput.begin(time.monotonic())

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        devices = trainer.world_size  # the others read as much, or nearly
        examples, windows = len(batch.examples), len(batch.windows.input_ids)
        self.throughput.add(time.monotonic(), examples * devices, windows * devices)
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)

    def figures(self, trainer: lightning.Trainer) -> dict[str, str]:
        """Return what is shown, in order: each head's loss, the rates, the time left."""
        logged = trainer.callback_metrics
        shown = {
            head: f"{float(logged[f'head/{head}']):.3f}"
            for head in _HEADS
            if f"head/{head}" in logged
        }
        examples, windows = self.throughput.rates()
        shown |= {"examples/s": f"{examples:.1f}", "windows/s": f"{windows:.1f}"}
        if "dev/score" in logged:
            shown["dev/score"] = f"{float(logged['dev/score']):.4f}"
        left = self.throughput.left()
        return shown if left is None else {**shown, "left": str(left)}


class BarProgress(_Watch, RichProgressBar):
    """A bar, for a terminal."""

    def __init__(self) -> None:
        super().__init__(console_kwargs={"stderr": True})

    def get_metrics(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> dict[str, Any]:
        """Return what stands behind the bar."""
        return dict(self.figures(trainer))


class LineProgress(_Watch):
    """A log line now and then, for a file.

    Args:
        seconds: Between two lines.
    """

    def __init__(self, seconds: float = 30.0) -> None:
        super().__init__()
        self._seconds = seconds
        self._said = float("-inf")

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Count the step, and say a line if the last one was said long ago."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        now = time.monotonic()
        if not trainer.is_global_zero or now - self._said < self._seconds:
            return
        self._said = now
        shown = ", ".join(f"{name} {value}" for name, value in self.figures(trainer).items())
        logger.info("epoch %d, step %d: %s", trainer.current_epoch, trainer.global_step, shown)


def progress_callback() -> Callback:
    """Return the bar where stderr is a terminal, else the lines."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()


def make_loggers(folder: Path, names: Sequence[str], run: str) -> list[Logger]:
    """Return the CSV logger and those asked for.

    Args:
        folder: Of the run; what is written to disk stands under it.
        names: Of ``tensorboard``, ``wandb``, ``mlflow``.
        run: Its name there.

    Raises:
        ConfigError: One of them is not installed; the message names the extra.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(f"run.loggers: {name} is not installed; pip install 'trivet[{name}]'")
    loggers: list[Logger] = [CSVLogger(folder, name="log")]
    if "tensorboard" in names:
        loggers.append(TensorBoardLogger(folder, name="tensorboard"))
    if "wandb" in names:
        loggers.append(WandbLogger(name=run, project="trivet", save_dir=folder))
    if "mlflow" in names:
        # MLflow 3 refuses plain folders; a server is named as everywhere, by MLFLOW_TRACKING_URI.
        where = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve()}/mlflow.db"
        loggers.append(MLFlowLogger(experiment_name="trivet", run_name=run, tracking_uri=where))
    return loggers
