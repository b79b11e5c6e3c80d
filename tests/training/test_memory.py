"""The estimate of a step's memory, the refusal of a step that does not fit, and saved layers."""

from __future__ import annotations

import copy
import re
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from typer.testing import CliRunner

from tests.graphs import model_of
from tests.training.conftest import ConfigOf
from trivet.__main__ import app
from trivet.configs.loading import dump_config
from trivet.configs.schema import TrainConfig
from trivet.errors import ConfigError, WindowError
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk, checkpoint_layers
from trivet.train import configured_model, plan, train
from trivet.training.initialization import initial_architecture
from trivet.training.memory import GIB, MemoryEstimate, estimate_memory, estimate_step

KINDS = ("bert", "deberta-v2", "mpnet", "modernbert")


def estimate(
    kind: str, windows: int, checkpointed: bool = False, bf16: bool = False, gpu: bool = True
) -> MemoryEstimate:
    """Return the estimate for a tiny model."""
    described = model_of(kind).architecture()

    def build() -> RagModel:
        model = RagModel.from_architecture(described)
        if checkpointed:
            checkpoint_layers(model.trunk)
        return model

    return estimate_memory(build, windows, 48, bf16=bf16, gpu=gpu)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_counted_once_and_activations_by_window(kind: str) -> None:
    few, many, less = estimate(kind, 8), estimate(kind, 16), estimate(kind, 16, checkpointed=True)
    parameters = list(model_of(kind).parameters())
    assert few.parameters == sum(each.numel() for each in parameters)
    assert few.weights >= 4 * few.parameters
    assert few.optimizer == 2 * few.gradients == 8 * few.trained
    assert few.weights == many.weights
    assert many.activations == pytest.approx(2 * few.activations, rel=0.1)
    assert less.activations < 0.8 * many.activations


def test_mpnets_scores_are_counted_where_they_are_kept() -> None:
    # In bf16 the CPU alone computes them; elsewhere attention is fused.
    fused, kept = (estimate("mpnet", 8, bf16=True, gpu=gpu) for gpu in (True, False))
    assert fused.activations < 0.75 * kept.activations


def test_saved_inputs_of_layers_give_the_same_gradients(
    tiny_encoder: transformers.PreTrainedModel,
) -> None:
    trunk = Trunk(tiny_encoder).train()
    other = copy.deepcopy(trunk)
    checkpoint_layers(other)
    ids, mask = torch.arange(24).view(2, 12) + 5, torch.ones(2, 12, dtype=torch.long)
    for each in (trunk, other):
        torch.manual_seed(0)
        each.encode(ids, mask, 0 * mask).pow(3).sum().backward()
    for ours, theirs in zip(trunk.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize(("accelerator", "needed"), [("cpu", 1.35), ("gpu", 2.1)])
def test_a_step_that_does_not_fit_is_refused_before_weights_are_read(
    tmp_path: Path,
    encoder: Path,
    config_of: ConfigOf,
    monkeypatch: pytest.MonkeyPatch,
    accelerator: str,
    needed: float,
) -> None:
    (tmp_path / "encoder").mkdir()  # has no weights and no tokenizer
    shutil.copy(encoder / "config.json", tmp_path / "encoder")

    def config(*given: str) -> TrainConfig:
        named = (f"encoder.name={tmp_path / 'encoder'}", f"run.accelerator={accelerator}")
        return config_of(tmp_path / "run", *named, *given)

    # Windows that take about 1 GiB of tensors.
    windows = int(4 * GIB / estimate_step(config("optim.call_windows=4"), False).activations)
    large = (f"optim.call_windows={windows}", "run.memory_gib={:.2f}".format)
    with pytest.raises(ConfigError, match=r"a step needs .*lower optim\.call_windows"):
        train(config(large[0], large[1](needed - 0.1)))
    with pytest.raises(ConfigError, match="cannot load"):
        train(config(large[0], large[1](needed + 0.1)))
    assert not (tmp_path / "run").exists()


DROPOUTS = ("encoder.attention_dropout=0.3", "encoder.hidden_dropout=0.2")
BEGUN = ("encoder.init=bundle", "encoder.name=embedded", "window.size=512")
APART = ("encoder.trunk=separate", "encoder.exact_match_embedding=true")


def test_an_estimated_bundle_has_the_dropouts_of_the_run(
    tmp_path: Path, config_of: ConfigOf
) -> None:
    encoder = initial_architecture(config_of(tmp_path, *BEGUN, *DROPOUTS))["encoder"]
    assert encoder["attention_probs_dropout_prob"] == 0.3
    assert encoder["hidden_dropout_prob"] == 0.2


@pytest.mark.parametrize("given", [APART, BEGUN])
def test_the_estimate_has_the_parameters_of_the_initial_model(
    tmp_path: Path, config_of: ConfigOf, given: tuple[str, ...]
) -> None:
    config = config_of(tmp_path, *given)
    parameters = list(configured_model(config)[0].parameters())
    found = estimate_step(config, gpu=False)
    assert found.parameters == sum(each.numel() for each in parameters)
    assert found.trained == sum(each.numel() for each in parameters if each.requires_grad)


def test_windows_beyond_the_positions_are_refused_by_name(
    tmp_path: Path, config_of: ConfigOf
) -> None:
    with pytest.raises(WindowError, match=r"window\.size \(9999 tokens\) exceeds"):
        train(config_of(tmp_path, "window.size=9999", "run.memory_gib=1"))


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path, config_of: ConfigOf) -> None:
    cache = f"data.cache={tmp_path / 'cache'}"
    config = config_of(tmp_path / "run", "optim.max_steps=7", cache)
    said = plan(config)
    assert "train: 24 rows, 24 windows an epoch" in said
    assert "steps: 6 an epoch, 7 in all" in said
    assert "fits: L4 (24 GB), A100 (40 GB), A100 (80 GB), H100 (80 GB)" in said
    assert re.search(r"peak memory on a CPU: 0\.0 GiB", said)
    (tmp_path / "run.yaml").write_text(dump_config(config), encoding="utf-8")
    ran = CliRunner().invoke(app, ["train", str(tmp_path / "run.yaml"), "--dry-run"])
    assert ran.stdout.splitlines() == said.splitlines()
    assert [each.name for each in tmp_path.iterdir()] == ["run.yaml"]
