"""The whole model: windows in, scores out; how windows are batched must not matter."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from trivet.ablation.score_rows import WeightsBackend
from trivet.data.collating import collate
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import Layout, WindowSettings, lay_out
from trivet.evaluation.packing import BatchLimits, WindowAccumulator
from trivet.evaluation.scheduler import Scheduler
from trivet.evaluation.window_queue import Job
from trivet.heads import EVIDENCE_STATES
from trivet.labelled.datamodule import collate_items, prepare
from trivet.model.aggregate import Outputs
from trivet.model.architecture import Architecture, Granularity
from trivet.model.rag_model import RagModel, as_tensors, question_similarity
from trivet.model.trunk import Trunk
from trivet.records import LabelledExample, Labels, RagExample


@pytest.fixture
def model(tiny_encoder: transformers.PreTrainedModel) -> RagModel:
    torch.manual_seed(0)
    pooled = tiny_encoder.config.model_type == "deberta-v2"
    return RagModel(Trunk(tiny_encoder), Architecture(pooled_support=pooled)).eval()


@pytest.fixture
def tokenizer(
    tiny_encoder: transformers.PreTrainedModel, request: pytest.FixtureRequest
) -> SegmentTokenizer:
    kind = "unigram" if tiny_encoder.config.model_type == "deberta-v2" else "wordpiece"
    return SegmentTokenizer.from_file(request.getfixturevalue(f"{kind}_file"))


@pytest.fixture
def layouts(tokenizer: SegmentTokenizer, rag_examples: tuple[RagExample, ...]) -> list[Layout]:
    return [
        lay_out(read, WindowSettings(64), tokenizer.special)
        for read in tokenize_examples(rag_examples, tokenizer)
    ]


@torch.inference_mode()
def scores_of(model: RagModel, windows: Sequence[object]) -> Outputs:
    outputs: Outputs = model(*as_tensors(windows))
    return outputs


def test_outputs_are_finite_probabilities_of_the_right_shapes(
    model: RagModel, layouts: list[Layout]
) -> None:
    windows = collate(layouts, pad=0)
    outputs = scores_of(model, windows)
    (b, r, _), c = windows.response_at.shape, windows.context_at.shape[1]
    s = windows.sentence_pool.shape[1]
    shapes = [tuple(tensor.shape) for tensor in outputs.present().values()]
    assert shapes == [(b, r), (b, c), (b, c), (b, s), (b,), (b,), (b,), (b,)]
    for name, tensor in outputs.present().items():
        assert tensor.dtype == torch.float32, name
        assert ((tensor >= 0) & (tensor <= 1 + 1e-6)).all(), name
    # Without a response nothing is unfaithful; with one the numbers are not all the same.
    assert outputs.faithfulness[1] == 1.0
    assert len(set(outputs.faithfulness.tolist())) == len(layouts)


@pytest.mark.parametrize("granularity", ["token", "example"])
def test_a_batch_equals_its_singles(
    model: RagModel, layouts: list[Layout], granularity: Granularity
) -> None:
    model.granularity = granularity
    whole = scores_of(model, collate(layouts, pad=0))
    for b, layout in enumerate(layouts):
        single = scores_of(model, collate([layout], pad=0))
        for name, output in single.present().items():
            inside = getattr(whole, name)[b : b + 1][tuple(map(slice, output.shape))]
            torch.testing.assert_close(inside, output, atol=2e-5, rtol=0, msg=name)


@torch.inference_mode()
def test_support_is_the_entailment_of_the_window_that_supports_most(
    model: RagModel, layouts: list[Layout]
) -> None:
    windows = collate(layouts, pad=0)
    logits = model.read(*as_tensors(windows[:3]))
    outputs = scores_of(model, windows)
    entailed = logits["support"].softmax(-1)[..., 0].reshape(-1)
    b = 3  # the long context
    at = torch.from_numpy(windows.response_at[b])
    assert at.shape[1] > 1 and (at[0] >= 0).all()
    shown = torch.where(at >= 0, entailed[at.clamp(min=0)], 0.0)
    torch.testing.assert_close(outputs.support_probs[b], shown.amax(-1))
    assert (shown.amax(-1) > shown.amin(-1))[at[:, 0] >= 0].all()


@torch.inference_mode()
@pytest.mark.parametrize("granularity", ["token", "example"])
def test_a_heads_logit_gains_its_weight_times_the_overlap(
    model: RagModel, layouts: list[Layout], granularity: Granularity
) -> None:
    model.granularity = granularity
    windows = collate(layouts, pad=0)
    plain = scores_of(model, windows)
    model.lexical_overlap = {"relevance": 1.5, "utilization": -2.0}
    weighed = scores_of(model, windows)
    for before, after, overlap, weight, at in (
        (plain[1], weighed[1], windows.question_overlap, 1.5, windows.context_at),
        (plain[2], weighed[2], windows.response_overlap, -2.0, windows.context_at),
    ):
        real = torch.from_numpy(at >= 0)
        assert len(np.unique(overlap)) > 2  # or the weight would be but another shift
        gained = (after.logit() - before.logit())[real]
        # Logits are made of probabilities again: to rounding.
        expected = weight * torch.from_numpy(overlap)[real]
        torch.testing.assert_close(gained, expected, atol=1e-4, rtol=0)
        assert (after[~real] == 0).all()
    again = RagModel.from_architecture(
        Architecture.from_json(json.loads(json.dumps(model.architecture().to_json())))
    )
    assert again.lexical_overlap == model.lexical_overlap


@torch.inference_mode()
@pytest.mark.parametrize("autocast", [False, True])
def test_bf16_is_finite_and_the_heads_stay_fp32(
    model: RagModel, layouts: list[Layout], autocast: bool
) -> None:
    tensors = as_tensors(collate(layouts, pad=0))
    exact = model(*tensors)
    if not autocast:
        model.trunk.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        logits = model.read(*tensors[:3])
        outputs = model(*tensors)
    assert all(
        tensor.dtype == torch.float32 for tensor in (*logits.values(), *outputs.present().values())
    )
    assert all(tensor.isfinite().all() for tensor in outputs.present().values())
    torch.testing.assert_close(outputs.relevance, exact.relevance, atol=0.1, rtol=0)


def test_every_part_gets_a_gradient(model: RagModel, layouts: list[Layout]) -> None:
    outputs = model(*as_tensors(collate(layouts[:3], pad=0)))
    parts = (outputs.support_probs, outputs.relevance, outputs.utilization)
    torch.stack([part.sum() for part in parts]).sum().backward()
    for name, parameter in model.heads.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@torch.inference_mode()
def test_a_window_is_decided_at_its_first_position(model: RagModel, layouts: list[Layout]) -> None:
    ids = as_tensors(collate(layouts, pad=0)[:3])
    by_token = model.read(*ids)
    model.granularity = "example"
    decided = model.read(*ids)
    for name, by_window in decided.items():
        tokens = by_token[name]
        assert by_window.shape == tokens.shape, name
        torch.testing.assert_close(by_window, tokens[:, :1].expand_as(tokens), msg=name)
        assert (tokens - by_window).abs().max() > 1e-3, name


def test_evidence_is_joined_in_training_as_in_serving(
    model: RagModel, tokenizer: SegmentTokenizer, rag_examples: tuple[RagExample, ...]
) -> None:
    """One call with all windows in torch; windows one by one, joined on the host."""
    settings = WindowSettings(64, evidence_sentences=2)
    labelled = [
        LabelledExample(rag_example, Labels(), "x", str(n))
        for n, rag_example in enumerate(rag_examples)
    ]
    items = prepare(labelled, tokenizer, settings)
    batch = collate_items(items, tokenizer.special.pad)
    assert 0 < batch.is_evidence.sum() < len(items)
    with torch.inference_mode():
        logits = model.read(*batch.windows[:3])
        taught = model.join(logits, *batch.windows[1:], batch.is_evidence)
    backend = WeightsBackend(model, window=64, call_windows=1)
    layouts = [item.layout for item in items]
    job = Job([WindowAccumulator(layout) for layout in layouts])
    Scheduler(backend, tokenizer.special.pad, BatchLimits(1)).submit(job).wait()
    for b, answers in enumerate(job.accumulators):
        served = answers.join("weakest_sentence")
        length = len(items[b].tokenized.response)
        ours = torch.from_numpy(served.support_probs[0, :length])
        torch.testing.assert_close(ours, taught.support_probs[b, :length], atol=2e-5, rtol=0)
        sentences = torch.from_numpy(served.sentence_support[0])
        theirs = taught.sentence_support[b, : len(sentences)]
        torch.testing.assert_close(sentences, theirs, atol=2e-5, rtol=0)
        faithfulness = torch.from_numpy(served.faithfulness)[0]
        torch.testing.assert_close(faithfulness, taught.faithfulness[b], atol=2e-5, rtol=0)


def test_a_similarity_reads_the_question_and_not_the_padding() -> None:
    # [CLS] context context [SEP] question question [SEP] response [SEP], and a shorter window.
    states = torch.randn(2, 9, EVIDENCE_STATES)
    mask = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
    segments = torch.tensor([[0] * 7 + [1] * 2, [0] * 5 + [1] + [0] * 3])
    context_at = torch.tensor([[1, 2], [10, -1]])
    half = EVIDENCE_STATES // 2
    asked = states[0, 3:7, :half].mean(0), states[1, 2:5, :half].mean(0)
    products = [half * (states[n, :, half:] @ asked[n]) for n in range(2)]
    wanted = torch.stack([products[0][1:3], torch.stack([products[1][1], torch.tensor(0.0)])])
    similarity = question_similarity(states, mask, segments, context_at)
    assert torch.allclose(similarity, wanted, atol=1e-4)
    longer = nn.functional.pad(states, (0, 0, 0, 4), value=7.0)
    mask, segments = (nn.functional.pad(values, (0, 4)) for values in (mask, segments))
    similarity = question_similarity(longer, mask, segments, torch.tensor([[1, 2], [14, -1]]))
    assert torch.allclose(similarity, wanted, atol=1e-4)
