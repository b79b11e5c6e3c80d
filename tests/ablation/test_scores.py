"""Verdicts of a run's test rows, by the weights of its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.graphs import model_of, write_tiny
from trivet.ablation.score_rows import score_rows
from trivet.configs.loading import load_config
from trivet.model.rag_model import RagModel, TokenLogits
from trivet.records import Evaluation, LabelledExample


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_rows_are_read_in_the_calls_and_the_precision_of_the_training(
    labelled_examples: tuple[LabelledExample, ...],
    wordpiece_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
) -> None:
    text = wordpiece_file.read_text(encoding="utf-8")
    bundle = write_tiny(tmp_path, model_of("bert"), text)
    settings = ("optim.call_windows=3", f"run.precision={precision}")
    config = load_config([Path("tiny.yaml")], ["encoder.name=x", *settings])
    read, calls = RagModel.read, list[tuple[int, bool]]()

    def watch(self: RagModel, ids: Tensor, *others: Tensor, **heads: Any) -> TokenLogits:
        calls.append((len(ids), torch.is_autocast_enabled("cpu")))
        return read(self, ids, *others, **heads)

    monkeypatch.setattr(RagModel, "read", watch)
    scored = score_rows(bundle, {"tiny": [*labelled_examples] * 4}, config)
    assert scored.device == f"torch {precision} on cpu"
    assert max(count for count, _ in calls) == 3, "a call of 512 positions would take more"
    assert {reduced for _, reduced in calls} == {precision == "bf16"}
    assert len(scored.rows) == 12 and all(
        isinstance(row.prediction.evaluation, Evaluation) for row in scored.rows
    )
