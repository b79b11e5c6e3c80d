"""``RagTraining`` and ``RagData`` under a plain ``lightning.Trainer``."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import lightning
import pytest
import torch

from tests.models import initial_model
from trivet.configs.schema import LossConfig, OptimConfig
from trivet.data.windows import WindowSettings
from trivet.labelled.datamodule import Item, RagData, prepare
from trivet.labelled.sources import load_source
from trivet.model.aggregate import Outputs
from trivet.training.lightning_module import RagTraining


class Norms(lightning.Callback):
    """The norm of the gradient that each step took."""

    def __init__(self) -> None:
        self.totals: list[float] = []

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, *_: object
    ) -> None:
        gradients = [weight.grad for weight in pl_module.parameters() if weight.grad is not None]
        self.totals.append(float(torch.nn.utils.get_total_norm(gradients)))


@pytest.mark.filterwarnings("ignore::lightning.pytorch.utilities.warnings.PossibleUserWarning")
@pytest.mark.parametrize(
    ("of_trainer", "expected"), [(None, 1e-3), (2e-3, 2e-3), (1e-4, 1e-4), (0, None)]
)
def test_the_gradient_is_clipped_once_by_the_trainer_or_by_the_module(
    tmp_path: Path,
    encoder: Path,
    data: tuple[Path, Path],
    of_trainer: float | None,
    expected: float | None,
) -> None:
    model, tokenizer = initial_model(str(encoder), "plain", "weakest_sentence")
    examples, _ = load_source(f"jsonl:{data[0]}", "all")
    items = prepare(examples, tokenizer, WindowSettings(64))
    module = RagTraining(model, LossConfig(), OptimConfig(clip=1e-3))
    norms = Norms()
    trainer = lightning.Trainer(
        default_root_dir=tmp_path,
        accelerator="cpu",
        max_steps=2,
        gradient_clip_val=of_trainer,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[norms],
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".isinstance.treespec, LeafSpec")
        trainer.fit(module, RagData(items, items, tokenizer.special.pad, 8, seed=0))
    assert len(norms.totals) == 2
    if expected is None:
        assert min(norms.totals) > 0.01
    else:
        assert norms.totals == pytest.approx([expected] * 2, rel=1e-2)


@pytest.mark.filterwarnings("ignore::lightning.pytorch.utilities.warnings.PossibleUserWarning")
def test_it_fits_tests_predicts_and_its_checkpoint_is_read_back(
    tmp_path: Path, encoder: Path, data: tuple[Path, Path]
) -> None:
    model, tokenizer = initial_model(str(encoder), "plain", "weakest_sentence")

    def rows(file: Path) -> list[Item]:
        examples, _ = load_source(f"jsonl:{file}", "all")
        return prepare(examples, tokenizer, WindowSettings(64))

    train, dev = (partial(rows, file) for file in data)
    module = RagTraining(model, LossConfig(share=1.0), OptimConfig(encoder_lr=1e-3), seed=3)
    batches = RagData(train, dev, tokenizer.special.pad, 8, seed=3, test=dev)
    trainer = lightning.Trainer(
        default_root_dir=tmp_path, accelerator="cpu", max_steps=2, logger=False
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".isinstance.treespec, LeafSpec")
        trainer.fit(module, batches)
        (measured,) = trainer.test(module, batches)
        predicted = trainer.predict(module, batches)
    assert 0 <= measured["test/hallucination_auroc/mean"] <= 1
    assert measured.keys() >= {"test/score", "test/relevance_rmse/tiny"}
    assert predicted is not None
    scores = [outputs for outputs in predicted if isinstance(outputs, Outputs)]
    assert sum(len(outputs.faithfulness) for outputs in scores) == 4
    (file,) = tmp_path.rglob("*.ckpt")
    read = torch.load(file, weights_only=True)
    assert read["hyper_parameters"]["loss"]["share"] == 1.0
    assert read["hyper_parameters"]["seed"] == 3
