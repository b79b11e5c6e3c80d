"""Rates and remaining time, computed by hand, and loggers that are not installed."""

from __future__ import annotations

import importlib.util
import logging
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from trivet.errors import ConfigError
from trivet.training.run_progress import (
    LineProgress,
    Throughput,
    make_loggers,
)


def test_rates_leave_pauses_out_and_the_time_left_does_not() -> None:
    speed = Throughput(steps_left=10)
    assert (speed.rates(), speed.left()) == ((0.0, 0.0), None)
    speed.begin(100.0)
    assert (speed.rates(), speed.left()) == ((0.0, 0.0), None)
    speed.add(101.0, examples=4, windows=8)
    speed.add(102.0, examples=2, windows=12)
    assert (speed.rates(), speed.left()) == ((3.0, 10.0), timedelta(seconds=8))
    speed.begin(110.0)  # dev was judged for 8 seconds
    speed.add(111.0, examples=5, windows=5)
    assert (speed.rates(), speed.left()) == ((5.0, 5.0), timedelta(seconds=round(11 / 3 * 7)))


def test_only_the_latest_steps_count_for_a_rate() -> None:
    speed = Throughput(steps_left=1000)
    speed.begin(0.0)
    for step in range(200):
        speed.add(10.0 + step, examples=1 if step < 100 else 3, windows=1)
    assert speed.rates() == (3.0, 1.0)


def test_a_line_says_each_heads_loss_the_rates_and_the_time_left(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 2.0, 2.0, 3.0, 3.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    heads = {"support": 0.5, "relevance": 0.25, "utilization": 0.125}
    trainer: Any = SimpleNamespace(
        estimated_stepping_batches=11,
        global_step=0,
        current_epoch=0,
        world_size=2,
        is_global_zero=True,
        callback_metrics={f"head/{head}": torch.tensor(loss) for head, loss in heads.items()},
    )
    windows = SimpleNamespace(input_ids=torch.zeros(6, 8))
    batch = SimpleNamespace(examples=[None] * 4, windows=windows)
    lines, module = LineProgress(seconds=30), cast(Any, None)
    with caplog.at_level(logging.INFO, logger="trivet.training.run_progress"):
        lines.on_train_start(trainer, module)
        trainer.global_step = 1
        for number in range(2):
            lines.on_train_batch_end(trainer, module, None, batch, number)
    # Two devices read twice four examples in two seconds; the second step says nothing so soon.
    assert [record.message for record in caplog.records] == [
        "epoch 0, step 1: support 0.500, relevance 0.250, utilization 0.125, "
        "examples/s 4.0, windows/s 6.0, left 0:00:20"
    ]


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_logger_that_is_not_installed_is_refused_with_the_extra(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda asked: None if asked == name else find(asked)
    )
    with pytest.raises(ConfigError, match=rf"run\.loggers: {name} .*: pip install {name}"):
        make_loggers(tmp_path, [name], "tiny")
