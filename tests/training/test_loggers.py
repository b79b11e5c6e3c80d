"""The loggers that are extras, each with its own library where it is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from trivet.configs.schema import TrainConfig
from trivet.train import train

# What these libraries warn of is theirs.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("one_thread")]
ConfigOf = Callable[..., TrainConfig]


@pytest.fixture
def run(tmp_path: Path, config_of: ConfigOf) -> Callable[[str], Path]:
    """Return a function: the folder of a tiny run that was logged by the logger of that name."""

    def make(name: str) -> Path:
        train(config_of(tmp_path / "run", "optim.epochs=1", f"run.loggers=[{name}]"))
        return tmp_path / "run"

    return make


def test_tensorboard_holds_losses_and_dev(run: Callable[[str], Path]) -> None:
    pytest.importorskip("tensorboard")
    reader = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = importlib.import_module(reader).EventAccumulator

    (events,) = (run("tensorboard") / "tensorboard").rglob("events.out.*")
    found = accumulator(str(events))
    found.Reload()
    assert {"loss/total", "head/support", "dev/score"} <= set(found.Tags()["scalars"])


def test_mlflow_holds_losses_and_dev(
    run: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = run("mlflow")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("trivet")
    (logged,) = client.search_runs([experiment.experiment_id])
    assert {"loss/total", "head/support", "dev/score"} <= set(logged.data.metrics)


def test_wandb_writes_offline_under_the_run(
    run: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder = run("wandb")
    wandb.finish()
    (written,) = (folder / "wandb").glob("offline-run-*/run-*.wandb")
    assert written.stat().st_size > 0
