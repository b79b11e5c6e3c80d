"""``optim.compile``: compiled layers compute what the others do, and weights keep their names."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.models import initial_model
from tests.training.conftest import ConfigOf
from trivet.bundle.bundle import read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.model.trunk import checkpoint_layers, compile_layers
from trivet.train import train

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # those of torch itself
]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_gradients_are_those_of_layers_that_are_not_compiled(
    encoder: Path, checkpointed: bool
) -> None:
    model, _ = initial_model(str(encoder), "plain", "weakest_sentence")
    compiled, _ = initial_model(str(encoder), "plain", "weakest_sentence")
    compiled.load_state_dict(model.state_dict())
    if checkpointed:
        checkpoint_layers(compiled.trunk)
    compile_layers(compiled.trunk)
    for length in (16, 24):
        inputs = [torch.ones(3, length, dtype=torch.long)] * 3
        for variant in (model, compiled):
            variant.zero_grad()
            torch.stack(
                [part.sum() for part in variant.train().read(*inputs).values()]
            ).sum().backward()
        for parameter, other in zip(model.parameters(), compiled.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, other.grad, atol=1e-5, rtol=1e-4)


def test_a_run_ends_in_a_bundle_that_loads(tmp_path: Path, config_of: ConfigOf) -> None:
    settings = ("optim.compile=true", "optim.epochs=1")
    load_rag_model(read_bundle(train(config_of(tmp_path, *settings))))
