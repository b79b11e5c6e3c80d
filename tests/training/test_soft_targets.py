"""R-Drop: the divergence between two passes, by hand and in a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.distributions import Bernoulli, Categorical, kl_divergence

from tests.training.conftest import ConfigOf, log_of
from tests.training.test_teacher import ROWS
from trivet.data.labelled.datamodule import collate_items, prepare
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.model.aggregate import gather_tokens
from trivet.model.rag_model import gather_classes
from trivet.train import train
from trivet.training.soft_targets import r_drop_losses


def test_it_is_the_mean_of_both_divergences(wordpiece_file: Path) -> None:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    items = prepare(ROWS, tokenizer, WindowSettings(64))
    batch = collate_items(items, tokenizer.special.pad)
    shape = (*batch.windows.input_ids.shape, 3)
    generator = torch.Generator().manual_seed(0)
    one, other = (torch.randn(shape, generator=generator) for _ in range(2))
    found = r_drop_losses(batch, {"support": one}, {"support": other})["support"]
    at = batch.windows.response_at
    passes = [Categorical(logits=gather_classes(each, at)) for each in (one, other)]
    apart = (kl_divergence(*passes) + kl_divergence(*passes[::-1])) / 2
    shown = at >= 0
    expected = (apart * shown).flatten(1).sum(-1) / shown.flatten(1).sum(-1)
    torch.testing.assert_close(found, expected.sum())
    assert float(r_drop_losses(batch, {"support": one}, {"support": one})["support"]) == 0

    marks = [{"relevance": each[..., 0]} for each in (one, other)]
    found = r_drop_losses(batch, *marks)["relevance"]
    at = batch.windows.context_at
    both = [Bernoulli(logits=gather_tokens(each["relevance"].reshape(-1), at)) for each in marks]
    apart = (kl_divergence(*both) + kl_divergence(*both[::-1])) / 2
    torch.testing.assert_close(found, (apart * batch.windows.context_weight).sum())


def test_a_run_with_dropout_logs_it_for_each_head(config_of: ConfigOf, tmp_path: Path) -> None:
    given = ["loss.r_drop=1.0", "optim.max_steps=3", "run.log_steps=1"]
    for dropout in (0.0, 0.3):
        train(config_of(tmp_path / str(dropout), *given, f"encoder.head_dropout={dropout}"))
        lines = [line for line in log_of(tmp_path / str(dropout)) if line["loss/total"]]
        assert lines
        for head in ("support", "relevance", "utilization"):
            apart = np.array([float(line[f"loss/r_drop_{head}"]) for line in lines])
            # Equal passes differ by rounding at most.
            assert (apart > 1e-4).all() if dropout else (np.abs(apart) < 1e-5).all()
