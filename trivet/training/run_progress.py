"""Progress of a run on stderr, as a bar or as log lines, and its experiment trackers."""

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

from trivet.errors import ConfigError
from trivet.heads import HEADS

logger = logging.getLogger(__name__)

_LATEST = 50  # steps that a rate is computed over


class Throughput:
    """Examples and windows per second over the latest steps, and the time left."""

    def __init__(self, steps_left: int) -> None:
        self._steps_left = steps_left
        self._begun: float | None = None
        self._steps = 0
        self._latest: deque[tuple[float, int, int]] = deque(maxlen=_LATEST)

    def begin(self, now: float) -> None:
        """Start or restart the clock at ``now``, in seconds."""
        self._begun = now if self._begun is None else self._begun
        self._latest.clear()
        self._latest.append((now, 0, 0))

    def add(self, now: float, examples: int, windows: int) -> None:
        """Add a step that ended at ``now``."""
        self._steps += 1
        self._steps_left -= 1
        self._latest.append((now, examples, windows))

    def rates(self) -> tuple[float, float]:
        """Return examples and windows per second; 0 before the first step."""
        seconds = self._latest[-1][0] - self._latest[0][0] if self._latest else 0.0
        if seconds <= 0:
            return 0.0, 0.0
        done = list(self._latest)[1:]  # the first entry only starts the clock
        return sum(step[1] for step in done) / seconds, sum(step[2] for step in done) / seconds

    def left(self) -> timedelta | None:
        """Return the time left, pauses included; None before the first step."""
        if self._begun is None or not self._steps:
            return None
        seconds = (self._latest[-1][0] - self._begun) / self._steps * max(0, self._steps_left)
        return timedelta(seconds=round(seconds))


class _Watch(Callback):
    """A callback that measures the throughput."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.throughput = Throughput(0)

    def on_train_start(self, trainer: lightning.Trainer, *args: Any, **kwargs: Any) -> None:
        super().on_train_start(trainer, *args, **kwargs)
        total = int(trainer.estimated_stepping_batches)
        self.throughput = Throughput(total - trainer.global_step)
        self.throughput.begin(time.monotonic())

    def on_validation_end(self, trainer: lightning.Trainer, *args: Any, **kwargs: Any) -> None:
        super().on_validation_end(trainer, *args, **kwargs)
        self.throughput.begin(time.monotonic())

    def on_train_batch_end(self, trainer: lightning.Trainer, *args: Any, **kwargs: Any) -> None:
        batch = args[2]  # after the module and the outputs
        devices = trainer.world_size  # the others read nearly as much
        examples, windows = len(batch.examples), len(batch.windows.input_ids)
        self.throughput.add(time.monotonic(), examples * devices, windows * devices)
        super().on_train_batch_end(trainer, *args, **kwargs)

    def figures(self, trainer: lightning.Trainer) -> dict[str, str]:
        """Return the figures to show: each head's loss, the rates, the time left."""
        logged = trainer.callback_metrics
        heads: list[str] = [head for head in HEADS if f"head/{head}" in logged]
        shown = {head: f"{float(logged[f'head/{head}']):.3f}" for head in heads}
        examples, windows = self.throughput.rates()
        shown |= {"examples/s": f"{examples:.1f}", "windows/s": f"{windows:.1f}"}
        if "dev/score" in logged:
            shown["dev/score"] = f"{float(logged['dev/score']):.4f}"
        left = self.throughput.left()
        return shown if left is None else {**shown, "left": str(left)}


class BarProgress(_Watch, RichProgressBar):
    """A progress bar for terminals."""

    def __init__(self) -> None:
        super().__init__(console_kwargs={"stderr": True})

    def get_metrics(self, trainer: lightning.Trainer, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the figures shown behind the bar."""
        return dict(self.figures(trainer))


class LineProgress(_Watch):
    """Progress as log lines with at least ``seconds`` between two, for files."""

    def __init__(self, seconds: float = 30.0) -> None:
        super().__init__()
        self._seconds = seconds
        self._logged_at = float("-inf")

    def on_train_batch_end(self, trainer: lightning.Trainer, *args: Any, **kwargs: Any) -> None:
        """Add the step, and log a line if the last one is old enough."""
        super().on_train_batch_end(trainer, *args, **kwargs)
        now = time.monotonic()
        if not trainer.is_global_zero or now - self._logged_at < self._seconds:
            return
        self._logged_at = now
        shown = ", ".join(f"{name} {value}" for name, value in self.figures(trainer).items())
        logger.info("epoch %d, step %d: %s", trainer.current_epoch, trainer.global_step, shown)


def progress_callback() -> Callback:
    """Return the bar if stderr is a terminal, else the log lines."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()


def make_loggers(folder: Path, names: Sequence[str], run: str) -> list[Logger]:
    """Return the CSV logger, and ``tensorboard``, ``wandb`` or ``mlflow`` where named.

    Raises:
        ConfigError: A tracker is not installed; the message names its package.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(f"run.loggers: {name} is not installed: pip install {name}")
    loggers: list[Logger] = [CSVLogger(folder, name="log")]
    if "tensorboard" in names:
        loggers.append(TensorBoardLogger(folder, name="tensorboard"))
    if "wandb" in names:
        loggers.append(WandbLogger(name=run, project="trivet", save_dir=folder))
    if "mlflow" in names:
        # MLflow 3 refuses plain folders; MLFLOW_TRACKING_URI names a server.
        where = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve()}/mlflow.db"
        loggers.append(MLFlowLogger(experiment_name="trivet", run_name=run, tracking_uri=where))
    return loggers
