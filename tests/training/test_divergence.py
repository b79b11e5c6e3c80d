"""A loss that is not finite stops the run, and the examples of its batch are recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.training.conftest import ConfigOf
from trivet.errors import DivergedError
from trivet.labelled.datamodule import Batch
from trivet.model.aggregate import Outputs
from trivet.model.rag_model import TokenLogits
from trivet.train import train
from trivet.training.lightning_module import RagTraining


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_the_step_the_loss_and_the_examples_are_named(
    tmp_path: Path,
    config_of: ConfigOf,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    batches: list[list[str | None]] = []
    weights: list[Tensor] = []
    losses = RagTraining.losses

    def spoil(
        self: RagTraining, batch: Batch, logits: TokenLogits, outputs: Outputs
    ) -> dict[str, Tensor]:
        batches.append([example.example.id for example in batch.examples])
        weights[:] = list(self.model.parameters())
        terms = losses(self, batch, logits, outputs)
        if self.global_step == 3:
            loss = terms["relevance"]
            # The root of 0 is 0, but its slope is infinite.
            spoilt = loss * float("nan") if what == "loss" else loss + (loss - loss.detach()).sqrt()
            terms["relevance"] = spoilt
        return terms

    monkeypatch.setattr(RagTraining, "losses", spoil)
    with pytest.raises(DivergedError) as stopped:
        train(config_of(tmp_path / "run"))

    file = tmp_path / "run" / "diverged.json"
    message = str(stopped.value)
    assert all(words in message for words in ("diverged at step 3", str(file), "gradient_norm is"))
    assert ("relevance is nan" in message) == (what == "loss") and "support" not in message
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["step"] == 3
    (batch,) = written["batches"]
    assert [row["id"] for row in batch["examples"]] == batches[-1]
    assert {(row["group"], row["source"]) for row in batch["examples"]} == {("train", "tiny")}
    assert all(torch.isfinite(weight).all() for weight in weights), "no step was made with it"
    assert not (tmp_path / "run" / "bundle").exists()
