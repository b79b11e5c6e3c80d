"""Memory: an error that names the setting, saved inputs of layers; a dry run."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import transformers
from typer.testing import CliRunner

from tests.training.conftest import ConfigOf
from trivet.__main__ import app
from trivet.configs.loading import dump_config
from trivet.errors import ConfigError, WindowError
from trivet.model.trunk import Trunk, checkpoint_layers
from trivet.train import configured_model, plan, train
from trivet.training.memory import refuse_too_many_windows


def test_lack_of_memory_names_the_setting() -> None:
    too_many = r"optim\.batch_windows \(24\) must be lower, .*tried to allocate 4611686018427387904"
    with pytest.raises(ConfigError, match=too_many), refuse_too_many_windows(24):
        torch.empty(2**60)
    with pytest.raises(RuntimeError, match="must match"), refuse_too_many_windows(24):
        torch.zeros(2) + torch.zeros(3)


def test_saved_inputs_of_layers_give_the_same_gradients(
    tiny_encoder: transformers.PreTrainedModel,
) -> None:
    trunk = Trunk(tiny_encoder).train()
    other = copy.deepcopy(trunk)
    checkpoint_layers(other)
    ids, mask = torch.arange(24).view(2, 12) + 5, torch.ones(2, 12, dtype=torch.long)
    for encoder in (trunk, other):
        torch.manual_seed(0)
        encoder.encode(ids, mask, 0 * mask).pow(3).sum().backward()
    for ours, theirs in zip(trunk.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_windows_beyond_the_positions_are_refused_by_name(
    tmp_path: Path, config_of: ConfigOf
) -> None:
    with pytest.raises(WindowError, match=r"window\.size \(9999 tokens\) exceeds"):
        train(config_of(tmp_path, "window.size=9999"))


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path, config_of: ConfigOf) -> None:
    cache = f"data.cache={tmp_path / 'cache'}"
    config = config_of(tmp_path / "run", "optim.max_steps=7", cache)
    printed = plan(config)
    assert "train: 24 rows, 24 windows an epoch" in printed
    count = sum(parameter.numel() for parameter in configured_model(config)[0].parameters())
    assert f"parameters: {count:,} ({count:,} trained)" in printed
    assert "steps: 6 an epoch, 7 in all" in printed
    (tmp_path / "run.yaml").write_text(dump_config(config), encoding="utf-8")
    ran = CliRunner().invoke(app, ["train", str(tmp_path / "run.yaml"), "--dry-run"])
    assert ran.stdout.splitlines() == printed.splitlines()
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]
