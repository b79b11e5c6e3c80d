"""``trivet lightning``: the LightningCLI with a configuration of ``trivet train``."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from tests.training.conftest import ConfigOf
from trivet.configs.loading import dump_config
from trivet.errors import ConfigError
from trivet.lightning_cli import run


def lightning(command: str, config: Path, *options: str) -> None:
    trainer = ("--trainer.accelerator=cpu", "--trainer.max_steps=2", "--trainer.logger=false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice on workers and loggers
        run([command, f"--model.config={config}", *trainer, *options])


def test_it_fits_a_recipe_and_tests_the_checkpoint(
    tmp_path: Path, config_of: ConfigOf, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(dump_config(config_of(tmp_path / "run")), encoding="utf-8")
    folder = "--trainer.default_root_dir={}".format
    lightning("fit", recipe, "--model.config.optim.encoder_lr=2e-3", folder(tmp_path / "fit"))
    (file,) = tmp_path.rglob("*.ckpt")
    saved = torch.load(file, weights_only=True)
    assert saved["global_step"] == 2
    assert saved["hyper_parameters"]["config"]["optim"]["encoder_lr"] == 2e-3
    lightning("test", recipe, f"--ckpt_path={file}", folder(tmp_path / "test"))
    assert "test/hallucination_auroc/mean" in capsys.readouterr().out


def test_a_mistake_in_the_configuration_is_refused_by_name(
    tmp_path: Path, config_of: ConfigOf, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(dump_config(config_of(tmp_path / "run")), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"optim\.epochs \(0\) must be at least 1"):
        lightning("fit", recipe, "--model.config.optim.epochs=0")
    with pytest.raises(SystemExit):
        lightning("fit", recipe, "--model.config.optim.rate=1")
    assert "optim.rate" in capsys.readouterr().err
