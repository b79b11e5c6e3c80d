"""A stopped run continues as if it had not stopped, to the bit, with dropout and altered data."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.training.conftest import ConfigOf
from trivet.bundle.bundle import WEIGHTS_NAME, read_bundle
from trivet.configs.loading import dump_config
from trivet.configs.schema import TrainConfig
from trivet.errors import ConfigError
from trivet.labelled.datamodule import Batch
from trivet.train import train
from trivet.training.lightning_module import RagTraining

Batches = list[list[str | None]]  # ids of the examples of each batch
# All sources of randomness, and batches that are read in slices.
AT_RANDOM = (
    "encoder.head_dropout=0.2",
    "encoder.attention_dropout=0.2",
    "data.augment={drop_contexts: 0.3, insert_contexts: 0.3, permute_contexts: 0.5, shuffle: 0.2}",
    "optim.call_windows=3",
)

TOLD_TO_END = """
import os, signal, sys
from pathlib import Path

import torch

from trivet.configs.loading import load_config
from trivet.train import train
from trivet.training.lightning_module import RagTraining

step = RagTraining.training_step


def end(self, batch, batch_idx):
    os.kill(os.getpid(), signal.SIGTERM)
    return step(self, batch, batch_idx)


torch.set_num_threads(1)
RagTraining.training_step = end
train(load_config([Path(sys.argv[1])]))
"""

KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path

import torch

from trivet.configs.loading import load_config
from trivet.train import train

save = torch.save


def save_half(checkpoint, file):
    if checkpoint["global_step"] == 8:
        file.write(b"half of a checkpoint")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    save(checkpoint, file)


torch.set_num_threads(1)
torch.save = save_half
train(load_config([Path(sys.argv[1])]))
"""


class Interrupted(Exception):
    """An interruption of a run."""


def assert_same_to_the_bit(ours: Path, theirs: Path) -> None:
    state, other = (load_file(bundle / WEIGHTS_NAME) for bundle in (ours, theirs))
    assert state.keys() == other.keys()
    assert [name for name in state if not torch.equal(state[name], other[name])] == []
    assert read_bundle(ours).info.thresholds == read_bundle(theirs).info.thresholds


@pytest.fixture(scope="module")
def whole(
    bert_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory, config_of: ConfigOf
) -> Path:
    """Return the bundle of a run that never stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return train(config_of(folder, f"encoder.name={bert_checkpoint}", *AT_RANDOM))


@pytest.fixture
def config(bert_checkpoint: Path, tmp_path: Path, config_of: ConfigOf) -> TrainConfig:
    """Return the configuration of a run in ``tmp_path`` that writes a checkpoint at every step."""
    name = f"encoder.name={bert_checkpoint}"
    return config_of(tmp_path, "run.checkpoint_minutes=1e-6", name, *AT_RANDOM)


def watch(seen: Batches, stop: int | None = None) -> Callable[[RagTraining, Batch, int], Tensor]:
    """Return a training step that notes the ids of its batch, and is interrupted at a step."""
    real = RagTraining.training_step

    def training_step(self: RagTraining, batch: Batch, batch_idx: int) -> Tensor:
        if self.global_step == stop:
            raise Interrupted
        seen.append([example.example.id for example in batch.examples])
        return real(self, batch, batch_idx)

    return training_step


def stop_at(step: int, config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> Batches:
    """Train until ``step``, and return the ids of the batches."""
    seen: Batches = []
    with monkeypatch.context() as patch:
        patch.setattr(RagTraining, "training_step", watch(seen, step))
        with pytest.raises(Interrupted):
            train(config)
    return seen


@pytest.mark.parametrize("stop", [6, 8], ids=["between-epochs", "within-an-epoch"])
def test_a_resumed_run_ends_where_one_that_never_stopped_does(
    config: TrainConfig, whole: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    seen = stop_at(stop, config, monkeypatch)
    monkeypatch.setattr(RagTraining, "training_step", watch(seen))
    resumed = train(config, resume=True)

    # Two epochs of six batches: every example twice, none lost or repeated around the stop.
    assert len(seen) == 12
    every = sorted(f"train-{n}" for n in range(24))
    for epoch in (seen[:6], seen[6:]):
        assert sorted(str(name) for batch in epoch for name in batch) == every
    first, second = (set(map(frozenset, epoch)) for epoch in (seen[:6], seen[6:]))
    assert first != second, "each epoch is shuffled anew"
    assert_same_to_the_bit(resumed, whole)


def test_averaged_weights_are_in_the_bundle_and_survive_a_stop(
    config: TrainConfig, whole: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config.optim.ema_decay = 0.5
    other = copy.deepcopy(config)
    other.run.folder = str(tmp_path / "unbroken")
    averaged = train(other)
    stop_at(8, config, monkeypatch)
    assert_same_to_the_bit(train(config, resume=True), averaged)
    state, last = (load_file(bundle / WEIGHTS_NAME) for bundle in (averaged, whole))
    assert all(torch.isfinite(tensor).all() for tensor in state.values())
    assert any(not torch.equal(state[name], last[name]) for name in state)


@pytest.mark.slow
def test_a_run_that_is_killed_while_it_writes_a_checkpoint_continues_from_the_previous_one(
    config: TrainConfig, whole: Path, tmp_path: Path
) -> None:
    file = tmp_path / "killed.yaml"
    file.write_text(dump_config(config), encoding="utf-8")
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, str(file)]
    killed = subprocess.run(command, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    folder = Path(config.run.folder)
    assert (folder / "checkpoints" / "last.ckpt.half").read_bytes() == b"half of a checkpoint"
    assert not (folder / "bundle").exists()
    assert_same_to_the_bit(train(config, resume=True), whole)


def test_a_run_that_is_told_to_end_does_not_end_as_if_it_had_finished(
    config_of: ConfigOf, tmp_path: Path
) -> None:
    config = config_of(tmp_path / "run")
    file = tmp_path / "told.yaml"
    file.write_text(dump_config(config), encoding="utf-8")
    command = [sys.executable, "-c", TOLD_TO_END, str(file)]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 128 + signal.SIGTERM, told.stderr
    assert not (tmp_path / "run" / "bundle").exists()


def test_a_checkpoint_of_another_architecture_is_refused_and_both_are_named(
    config: TrainConfig, tmp_path: Path, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(2, config, monkeypatch)
    before = (tmp_path / "config.yaml").read_bytes()
    other = config_of(tmp_path, "encoder.trunk=separate")
    both = r"last\.ckpt .* another architecture: .*trunk is shared there and separate here"
    with pytest.raises(ConfigError, match=both):
        train(other, resume=True)
    assert (tmp_path / "config.yaml").read_bytes() == before
