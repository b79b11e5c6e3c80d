"""The loggers that are extras, each with its own library where it is installed."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.training.conftest import ConfigOf
from trivet.train import train

# Warnings of these libraries are not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


def run(name: str, folder: Path, config_of: ConfigOf) -> Path:
    """Return the folder of a tiny run with a logger."""
    train(config_of(folder, "optim.epochs=1", f"run.loggers=[{name}]"))
    return folder


def test_tensorboard_holds_losses_and_dev(tmp_path: Path, config_of: ConfigOf) -> None:
    pytest.importorskip("tensorboard")
    reader = "tensorboard.backend.event_processing.event_accumulator"
    folder = run("tensorboard", tmp_path, config_of)
    (events,) = (folder / "tensorboard").rglob("events.out.*")
    accumulator = importlib.import_module(reader).EventAccumulator(str(events))
    accumulator.Reload()
    assert {"loss/total", "head/support", "dev/score"} <= set(accumulator.Tags()["scalars"])


def test_mlflow_holds_losses_and_dev(
    tmp_path: Path, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = run("mlflow", tmp_path, config_of)
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("trivet")
    (logged,) = client.search_runs([experiment.experiment_id])
    assert {"loss/total", "head/support", "dev/score"} <= set(logged.data.metrics)


def test_wandb_writes_offline_under_the_run(
    tmp_path: Path, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder = run("wandb", tmp_path, config_of)
    wandb.finish()
    (written,) = (folder / "wandb").glob("offline-run-*/run-*.wandb")
    assert written.stat().st_size > 0
