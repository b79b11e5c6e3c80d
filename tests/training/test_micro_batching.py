"""Windows read in slices: equal scores and gradients, up to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models import initial_model
from trivet.data.collating import collate
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import WindowSettings, lay_out
from trivet.model.rag_model import RagModel, as_tensors
from trivet.model.slices import read_in_slices
from trivet.records import RagExample


@pytest.fixture
def start(bert_checkpoint: Path) -> tuple[RagModel, SegmentTokenizer]:
    torch.manual_seed(0)
    return initial_model(str(bert_checkpoint), "plain", "weakest_sentence", head_dropout=0.0)


@pytest.fixture
def windows(
    start: tuple[RagModel, SegmentTokenizer], rag_examples: tuple[RagExample, ...]
) -> tuple[Tensor, ...]:
    special = start[1].special
    reads = tokenize_examples(rag_examples[:4], start[1])
    layouts = [lay_out(read, WindowSettings(64), special) for read in reads]
    return as_tensors(collate(layouts, special.pad))


def gradients(model: RagModel, windows: tuple[Tensor, ...], max_windows: int) -> dict[str, Tensor]:
    model.zero_grad()
    outputs = model.join(read_in_slices(model, windows[:3], max_windows), *windows[1:])
    (outputs.faithfulness.sum() + outputs.relevance.sum() + outputs.utilization.sum()).backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("max_windows", [1, 5, 7])
def test_the_gradient_is_that_of_one_reading(
    start: tuple[RagModel, SegmentTokenizer], windows: tuple[Tensor, ...], max_windows: int
) -> None:
    model = start[0].eval()
    assert len(windows[0]) > 14, "one example alone has more windows than a call"
    whole = gradients(model, windows, max_windows=10_000)
    assert sum(float(gradient.abs().sum()) for gradient in whole.values()) > 0
    torch.testing.assert_close(gradients(model, windows, max_windows), whole, atol=1e-6, rtol=1e-4)


def test_a_call_reads_few_windows_and_no_padding_beyond_its_longest(
    start: tuple[RagModel, SegmentTokenizer],
    windows: tuple[Tensor, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = start[0].eval()
    shapes: list[tuple[int, int]] = []
    real = model.read

    def counted(*inputs: Tensor, **options: Any) -> object:
        shapes.append((len(inputs[0]), inputs[0].shape[1]))
        assert inputs[1][:, -1].any(), "the longest window ends where the call does"
        return real(*inputs, **options)

    monkeypatch.setattr(model, "read", counted)
    read_in_slices(model, windows[:3], 4)
    assert max(count for count, _ in shapes) <= 4
    assert sum(count for count, _ in shapes) == len(windows[0])
    assert len({width for _, width in shapes}) > 1
