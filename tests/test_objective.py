"""What training minimises: each kind of supervision has its loss, the unknown trains nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from trivet.configs.schema import LossConfig
from trivet.data.module import collate_items, prepare
from trivet.data.tokens import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.model.initial import initial_model
from trivet.model.rag_model import RagModel
from trivet.objective import RagTraining
from trivet.records import LabelledExample, Labels, RagExample


@pytest.fixture
def start(bert_checkpoint: Path) -> tuple[RagModel, SegmentTokenizer]:
    torch.manual_seed(0)
    model, tokenizer = initial_model(str(bert_checkpoint), "plain", "weakest_sentence")
    return model.eval(), tokenizer


def losses_of(
    examples: Sequence[LabelledExample],
    start: tuple[RagModel, SegmentTokenizer],
    weights: LossConfig | None = None,
) -> dict[str, Tensor]:
    model, tokenizer = start
    training = RagTraining(model, weights or LossConfig(), 1e-3, 1e-3, 0.01, 0.1)
    batch = collate_items(prepare(examples, tokenizer, WindowSettings(64)), tokenizer.special.pad)
    logits = model.read(*batch.windows[:3])
    return training.losses(batch, logits, model.join(logits, *batch.windows[3:]))


def test_each_kind_of_supervision_has_its_loss(
    labelled_examples: tuple[LabelledExample, ...], start: tuple[RagModel, SegmentTokenizer]
) -> None:
    known = [
        {name for name, loss in losses_of([example], start).items() if loss > 0}
        for example in labelled_examples
    ]
    assert known == [{"window", "relevance", "utilization"}, {"token"}, {"verdict"}]
    both = losses_of(labelled_examples[1:2], start, LossConfig(verdict_always=True))
    assert both["verdict"] > 0


def test_what_is_unknown_trains_nothing(start: tuple[RagModel, SegmentTokenizer]) -> None:
    example = RagExample("Who?", ("The mill is old.",), "The mill is old.")
    unanswered = RagExample("Who?", ("The mill is old.",), "")
    # Of an empty response no verdict can be learnt, whatever its label says.
    rows = [
        LabelledExample(example, Labels(), "a", "a"),
        LabelledExample(unanswered, Labels(adherent=True, unsupported=()), "a", "b"),
    ]
    losses = losses_of(rows, start)
    assert all(loss.item() == 0.0 for loss in losses.values())
    torch.stack(list(losses.values())).sum().backward()
    for name, parameter in start[0].named_parameters():
        assert parameter.grad is None or parameter.grad.abs().sum() == 0, name


def test_each_loss_has_its_weight(
    labelled_examples: tuple[LabelledExample, ...], start: tuple[RagModel, SegmentTokenizer]
) -> None:
    plain = losses_of(labelled_examples, start, LossConfig(share=1))
    weights = LossConfig(window=2, token=3, verdict=4, relevance=5, utilization=0, share=6)
    weighted = losses_of(labelled_examples, start, weights)
    factors = {name: (weighted[name] / plain[name]).item() for name in plain}
    assert factors == pytest.approx(
        {"window": 2, "token": 3, "verdict": 4, "relevance": 5, "utilization": 0, "share": 6}
    )


def test_the_share_is_held_against_the_annotators_or_the_marks(
    labelled_examples: tuple[LabelledExample, ...], start: tuple[RagModel, SegmentTokenizer]
) -> None:
    weights = LossConfig(share=1.0)
    assert losses_of(labelled_examples[:1], start, weights)["share"] > 0
    assert losses_of(labelled_examples[1:], start, weights)["share"] == 0
