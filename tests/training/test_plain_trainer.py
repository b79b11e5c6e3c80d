"""``RagTraining`` and ``RagData`` under a plain ``lightning.Trainer``."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import lightning
import pytest
import torch

from trivet.configs.schema import LossConfig, OptimConfig
from trivet.data.labelled.datamodule import Item, RagData, prepare
from trivet.data.labelled.sources import load_source
from trivet.data.windows import WindowSettings
from trivet.model.aggregate import Outputs
from trivet.training.initialization import initial_model
from trivet.training.lightning_module import RagTraining

pytestmark = pytest.mark.usefixtures("one_thread")


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
    scores = [each for each in predicted if isinstance(each, Outputs)]
    assert sum(len(each.faithfulness) for each in scores) == 4
    (file,) = tmp_path.rglob("*.ckpt")
    read = torch.load(file, weights_only=True)
    assert read["hyper_parameters"]["loss"]["share"] == 1.0
    assert read["hyper_parameters"]["seed"] == 3
