"""A head stops when its own measure on dev no longer improves; the others go on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.training.conftest import ConfigOf, log_of
from trivet.bundle.bundle import WEIGHTS_NAME
from trivet.errors import ConfigError
from trivet.train import train
from trivet.training.head_stopping import HeadStopping
from trivet.training.lightning_module import RagTraining


class Heads:
    """The part of a ``RagTraining`` that the callback knows."""

    def __init__(self, *names: str) -> None:
        self.active_heads: tuple[str, ...] = names

    def stop_head(self, head: str) -> None:
        self.active_heads = tuple(each for each in self.active_heads if each != head)


def check(callback: HeadStopping, heads: Heads, **values: float) -> bool:
    """Run a validation with these measures; return whether the run ends."""
    metrics = {f"dev/{name}/mean": torch.tensor(value) for name, value in values.items()}
    trainer: Any = SimpleNamespace(callback_metrics=metrics, should_stop=False)
    callback.on_validation_end(trainer, heads)
    return bool(trainer.should_stop)


def test_each_head_is_stopped_by_its_own_measure() -> None:
    callback, heads = HeadStopping(patience=2), Heads("support", "relevance")
    # Support is better if higher, relevance if lower.
    assert not check(callback, heads, hallucination_auroc=0.6, relevance_rmse=0.3)
    assert not check(callback, heads, hallucination_auroc=0.5, relevance_rmse=0.2)
    assert not check(callback, heads, hallucination_auroc=0.7, relevance_rmse=0.2)
    assert list(heads.active_heads) == ["support", "relevance"]
    assert not check(callback, heads, hallucination_auroc=0.7, relevance_rmse=0.3)
    assert list(heads.active_heads) == ["support"]
    assert not check(callback, heads, relevance_rmse=0.1), "no value, and no reason to stop"
    assert check(callback, heads, hallucination_auroc=0.6), "the last head ends the run"


def test_a_resumed_run_knows_what_was_stopped() -> None:
    first, heads = HeadStopping(patience=1), Heads("support", "relevance")
    check(first, heads, hallucination_auroc=0.6, relevance_rmse=0.3)
    check(first, heads, hallucination_auroc=0.7, relevance_rmse=0.3)
    resumed, again = HeadStopping(patience=1), Heads("support", "relevance")
    resumed.load_state_dict(first.state_dict())
    trainer: Any = SimpleNamespace(should_stop=False)
    resumed.on_train_start(trainer, again)
    assert again.active_heads == heads.active_heads == ("support",)
    assert not trainer.should_stop
    assert check(resumed, again, hallucination_auroc=0.65), "the best before the break counts"
    ended = HeadStopping(patience=1)
    ended.load_state_dict(resumed.state_dict())
    ended.on_train_start(trainer, Heads("support", "relevance"))
    assert trainer.should_stop, "nothing is left to train"


def test_a_run_ends_with_its_last_head(config_of: ConfigOf, tmp_path: Path) -> None:
    # At a rate of nearly 0 no measure improves after the first of four validations.
    given = ["optim.epochs=4", "optim.encoder_lr=0", "optim.head_lr=1e-12"]
    train(config_of(tmp_path / "all", *given))
    train(config_of(tmp_path / "stopped", *given, "optim.stop_head_after=1"))
    checks = [
        sum(bool(line["dev/score"]) for line in log_of(tmp_path / name))
        for name in ("all", "stopped")
    ]
    assert checks == [4, 2]


def test_a_stopped_head_is_no_longer_trained(
    config_of: ConfigOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_at_once(self: HeadStopping, trainer: Any, pl_module: RagTraining) -> None:
        pl_module.stop_head("relevance")

    # The teacher of this head alone has nothing left to say.
    teacher = train(config_of(tmp_path / "teacher", "optim.max_steps=1"))
    monkeypatch.setattr(HeadStopping, "on_train_start", stop_at_once)
    given = [f"distill.teacher={teacher}", "distill.heads=[relevance]", "optim.head_lr=0.05"]
    given += ["run.log_steps=1", "encoder.init=bundle", f"encoder.name={teacher}"]
    train(config_of(tmp_path / "run", *given, "optim.stop_head_after=9"))
    before, after = (
        load_file(folder / WEIGHTS_NAME) for folder in (teacher, tmp_path / "run" / "bundle")
    )
    moved = {
        head: bool((before[name] != after[name]).any())
        for head in ("support", "relevance", "utilization")
        for name in [f"heads.{head}.classifier.weight"]
    }
    assert moved == {"support": True, "relevance": False, "utilization": True}
    logged = {name for line in log_of(tmp_path / "run") for name, value in line.items() if value}
    assert "loss/utilization" in logged and "loss/relevance" not in logged


@pytest.mark.parametrize("given", ["run.devices=2", "loss.learned=true"])
def test_it_is_refused_where_a_head_cannot_end(
    config_of: ConfigOf, tmp_path: Path, given: str
) -> None:
    with pytest.raises(ConfigError, match=r"optim\.stop_head_after \(1\) must be 0 with"):
        config_of(tmp_path, "optim.stop_head_after=1", given)
