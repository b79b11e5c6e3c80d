"""Losses of each kind of supervision; unknown labels train nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
import torch
from torch import Tensor

from tests.models import initial_model
from trivet.configs.schema import LossConfig, OptimConfig
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.errors import ConfigError
from trivet.labelled.datamodule import Batch, RagData, collate_items, prepare
from trivet.model.multi_trunk import SeparateTrunk
from trivet.model.rag_model import RagModel
from trivet.records import LabelledExample, Labels, RagExample
from trivet.training.lightning_module import RagTraining


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
    training = RagTraining(model, weights or LossConfig(), OptimConfig())
    batch = collate_items(prepare(examples, tokenizer, WindowSettings(64)), tokenizer.special.pad)
    logits = model.read(*batch.windows[:3])
    return training.losses(batch, logits, model.join(logits, *batch.windows[1:]))


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


def gradients(
    training: RagTraining, batches: Sequence[Batch], mean: str = "epoch"
) -> dict[str, Tensor]:
    """Return the mean gradient over batches, each a step of one device."""
    training.zero_grad()
    for batch in batches:
        if mean == "batch":
            known = {head: float(len(batch.examples)) for head in batch.mean_labelled}
            batch = batch._replace(mean_labelled=known)
        losses = training.losses(batch, *training.predict(batch.windows, batch.is_evidence))
        (torch.stack(list(losses.values())).sum() / len(batches)).backward()
    return {
        name: parameter.grad.clone()
        for name, parameter in training.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("world", [1, 3])
def test_an_epoch_of_batches_has_the_gradient_of_all_examples_together(
    labelled_examples: tuple[LabelledExample, ...],
    start: tuple[RagModel, SegmentTokenizer],
    world: int,
) -> None:
    model, tokenizer = start
    foreign = "The keeper of the lighthouse had a lamp."
    examples = []
    for count in range(0, 24, 2):  # of contexts, hence of windows
        for labelled in labelled_examples:
            more = [f"{foreign} {number}" for number in range(count)]
            contexts = (*labelled.example.contexts, *more)
            texts = replace(labelled.example, contexts=contexts)
            examples.append(replace(labelled, example=texts, weight=1 + count % 3))
    items = prepare(examples, tokenizer, WindowSettings(48))
    counts = {len(item.layout.rows) for item in items}
    assert min(counts) == 1 and max(counts) > 8, "some rows share a batch, others fill one"
    batches: list[Batch] = []
    for rank in range(world):
        data = RagData(items, items, tokenizer.special.pad, batch_windows=40, seed=0)
        data.trainer = cast(Any, SimpleNamespace(global_rank=rank, world_size=world))
        batches += data.train_dataloader()
    assert min(batches[0].mean_labelled.values()) >= 1
    training = RagTraining(model, LossConfig(share=1.0, verdict_always=True), OptimConfig())
    together = gradients(training, [collate_items(items, tokenizer.special.pad)])
    grouped = gradients(training, batches)
    for name, gradient in together.items():
        size = float(gradient.abs().max())
        torch.testing.assert_close(grouped[name], gradient, atol=1e-4 * size + 1e-7, rtol=1e-3)
    # The mean over each batch weighs the rows of many windows more.
    before, whole = (
        torch.cat([gradient.flatten() for gradient in gradients_of.values()])
        for gradients_of in (gradients(training, batches, "batch"), together)
    )
    assert float((before - whole).norm() / whole.norm()) > 0.1


def test_what_is_unknown_trains_nothing(start: tuple[RagModel, SegmentTokenizer]) -> None:
    example = RagExample("Who?", ("The mill is old.",), "The mill is old.")
    unanswered = RagExample("Who?", ("The mill is old.",), "")
    # An empty response teaches no verdict, whatever its label says.
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
    factors = {name: (weighted[name] / plain[name]).item() for name in weighted}
    expected = {"window": 2, "token": 3, "verdict": 4, "relevance": 5}
    # A weight of 0 is not computed.
    assert factors == pytest.approx(expected | {"relevance_share": 6, "utilization_share": 6})


def test_the_share_is_held_against_the_annotators_or_the_marks(
    labelled_examples: tuple[LabelledExample, ...], start: tuple[RagModel, SegmentTokenizer]
) -> None:
    weights = LossConfig(share=1.0)
    for name in ("relevance_share", "utilization_share"):
        assert losses_of(labelled_examples[:1], start, weights)[name] > 0
        assert losses_of(labelled_examples[1:], start, weights)[name] == 0


def test_decisions_by_window_are_taught_by_the_verdict_alone(
    labelled_examples: tuple[LabelledExample, ...], bert_checkpoint: Path
) -> None:
    torch.manual_seed(0)
    start = initial_model(str(bert_checkpoint), "plain", "weakest_sentence", granularity="example")
    for example in labelled_examples:
        losses = losses_of([example], start)
        assert losses.keys() == {"verdict", "relevance", "utilization"}
        assert losses["verdict"] > 0, "also where single tokens are known"
    assert losses_of(labelled_examples[:1], start)["relevance"] > 0


def test_a_head_of_weight_zero_costs_nothing_and_stays_as_it_is(
    labelled_examples: tuple[LabelledExample, ...],
    bert_checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, tokenizer = initial_model(
        str(bert_checkpoint), "plain", "weakest_sentence", trunk="separate"
    )
    weights = LossConfig(relevance=0.0, token=0.0)
    training = RagTraining(model, weights, OptimConfig())
    batch = collate_items(
        prepare(labelled_examples, tokenizer, WindowSettings(64)), tokenizer.special.pad
    )
    read: list[str] = []
    trunk = cast(SeparateTrunk, model.trunk)
    for name in trunk.trunks:
        trunk.part(name).encoder.register_forward_hook(lambda *_, name=name: read.append(name))
    monkeypatch.setattr(training, "log", lambda *_, **__: None)
    monkeypatch.setattr(training, "log_dict", lambda *_, **__: None)
    training.training_step(batch, 0).backward()
    assert read == ["support", "utilization"]
    frozen = [*model.heads["relevance"].parameters(), *trunk.part("relevance").parameters()]
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in frozen)
    every = training.losses(batch, *training.predict(batch.windows, batch.is_evidence))
    assert every.keys() == {"window", "verdict", "utilization"}


def test_gradient_cosines_of_heads_that_share_nothing_are_refused(bert_checkpoint: Path) -> None:
    model, _ = initial_model(str(bert_checkpoint), "plain", "weakest_sentence", trunk="separate")
    with pytest.raises(ConfigError, match=r"run\.gradient_cosine_steps \(5\) .* separate"):
        RagTraining(model, LossConfig(), OptimConfig(), cosine_steps=5)


@pytest.mark.parametrize("trunk", ["shared", "partial"])
def test_gradient_cosines_are_logged_of_what_is_shared(
    labelled_examples: tuple[LabelledExample, ...],
    bert_checkpoint: Path,
    trunk: Literal["shared", "partial"],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    model, tokenizer = initial_model(
        str(bert_checkpoint), "plain", "weakest_sentence", trunk=trunk, shared_layers=1
    )
    training = RagTraining(model, LossConfig(), OptimConfig(call_windows=2), cosine_steps=1)
    logged: dict[str, Tensor] = {}
    told: dict[str, float] = {}
    logger = SimpleNamespace(log_metrics=lambda metrics, step: told.update(metrics))
    monkeypatch.setattr(RagTraining, "loggers", property(lambda _: [logger]))
    monkeypatch.setattr(training, "log_dict", lambda figures, **_: logged.update(figures))
    monkeypatch.setattr(training, "log", lambda name, value, **_: logged.update({name: value}))
    items = prepare(labelled_examples, tokenizer, WindowSettings(64))
    total = training.training_step(collate_items(items, tokenizer.special.pad), 0)
    pairs = ("support_relevance", "support_utilization", "relevance_utilization")
    assert set(told) == {f"gradient_cosine/{pair}" for pair in pairs}
    assert all(-1.001 <= value <= 1.001 for value in told.values())
    assert all(parameter.grad is None for parameter in model.parameters())
    total.backward()
    heads = [logged[f"head/{head}"] for head in ("support", "relevance", "utilization")]
    torch.testing.assert_close(torch.stack(heads).sum(), logged["loss/total"])
