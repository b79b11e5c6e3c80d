"""Under prefix attention contexts and question do not see the response."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.models import initial_model
from trivet.errors import ConfigError
from trivet.heads.cross_attention_head import CrossAttentionHead
from trivet.model.inference.layer import Form
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk

KINDS = ("bert_checkpoint", "nli_checkpoint", "tiny_mpnet", "tiny_modernbert")  # nli: DeBERTa
FORMS: tuple[Form, ...] = ("portable", "fused")


def windows(*responses: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return windows of nine context tokens, padded, whose responses differ."""
    width = 9 + max(len(response) for response in responses) + 2
    ids, mask, segments = (torch.zeros(len(responses), width, dtype=torch.int64) for _ in range(3))
    for row, response in enumerate(responses):
        tokens = [*range(5, 14), *response, 1]
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
        segments[row, 9 : len(tokens)] = 1
    return ids, mask, segments


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> RagModel:
    """Return a model with random heads over a tiny encoder of each kind."""
    torch.manual_seed(0)
    encoder = request.getfixturevalue(request.param)
    trunk = Trunk.from_pretrained(str(encoder)) if isinstance(encoder, Path) else Trunk(encoder)
    trunk.add_exact_match()
    trunk.use_prefix_attention()
    model = RagModel(trunk)
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter.mul_(3.0)
    return model.eval()


def test_relevance_is_that_without_a_response(model: RagModel) -> None:
    shown = windows([6, 7, 8], [20, 21], [])
    with torch.inference_mode():
        logits = model.read(*shown)
    context = logits["relevance"][:, :9]
    torch.testing.assert_close(context[0], context[2], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(context[1], context[2], atol=1e-4, rtol=1e-4)
    assert (logits["utilization"][0, :9] - logits["utilization"][2, :9]).abs().max() > 1e-2
    assert (logits["support"][0, 9:11] - logits["support"][1, 9:11]).abs().max() > 1e-2


def test_the_response_still_sees_the_contexts(model: RagModel) -> None:
    ids, mask, segments = windows([6, 7, 8])
    with torch.inference_mode():
        before = model.read(ids, mask, segments)["support"][0, 9:12]
        ids[0, 3] = 30
        after = model.read(ids, mask, segments)["support"][0, 9:12]
    assert (before - after).abs().max() > 1e-2


@pytest.mark.parametrize("form", FORMS)
def test_inference_forms_hide_the_same(model: RagModel, form: Form) -> None:
    shown = windows([6, 7, 8, 40], [20, 21], [])
    exported = inference_model(model, shown[0].shape[1], form)
    with torch.inference_mode():
        wanted, traced = model.read(*shown), exported.read(*shown)  # type: ignore[operator]
    real = shown[1] > 0
    for name, logits in wanted.items():
        torch.testing.assert_close(traced[name][real], logits[real], atol=2e-4, rtol=1e-4)


def test_a_bundles_utilization_starts_from_its_old_head(bert_checkpoint: Path) -> None:
    model = RagModel(Trunk.from_pretrained(str(bert_checkpoint)))
    old = model.get_parameter("heads.utilization.classifier.weight").detach().clone()
    model.use_prefix_attention()
    head = model.heads["utilization"]
    assert isinstance(head, CrossAttentionHead) and model.architecture().prefix_attention
    torch.testing.assert_close(head.classifier.weight[:, : old.shape[1]], old)
    assert not head.classifier.weight[:, old.shape[1] :].any()


@pytest.mark.parametrize("granularity", ["token", "example"])
def test_the_first_token_must_see_the_response_where_it_decides(
    bert_checkpoint: Path, granularity: str
) -> None:
    def start(asked: bool | None) -> bool:
        model, _ = initial_model(
            str(bert_checkpoint),
            "plain",
            "weakest_sentence",
            granularity=granularity,  # type: ignore[arg-type]
            prefix_attention=asked,
        )
        return model.prefix_attention

    assert start(None) == (granularity == "token") and not start(False)
    if granularity == "token":
        assert start(True)
    else:
        with pytest.raises(ConfigError, match=r"granularity: example needs .* set it to false"):
            start(True)
