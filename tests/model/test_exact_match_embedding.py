"""Exact-match embeddings: found by hand, in the graph, and in encoders that have them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models import initial_model
from trivet.backends.profiles import Sizes, make_windows
from trivet.model.architecture import TrunkKind
from trivet.model.exact_match_embedding import match_kinds
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel, as_tensors


@pytest.mark.parametrize("trunk", ["shared", "separate", "partial"])
@pytest.mark.parametrize("kind", ["bert", "nli"])
def test_matches_reach_the_heads_and_the_module_that_is_exported(
    trunk: TrunkKind, kind: str, request: pytest.FixtureRequest
) -> None:
    windows = as_tensors(make_windows(Sizes(N=4, L=24, B=1, R=1, K=1, C=1, S=1), 40, seed=1))[:3]
    checkpoint: Path = request.getfixturevalue(f"{kind}_checkpoint")
    torch.manual_seed(0)
    model, _ = initial_model(
        str(checkpoint),
        "plain",
        "weakest_sentence",
        trunk=trunk,
        shared_layers=1,
        exact_match_embedding=True,
    )
    model.eval()
    again = RagModel.from_architecture(model.architecture()).eval()
    again.load_state_dict(model.state_dict())
    exported = inference_model(model, windows[0].shape[1])
    logits, seen = model.read(*windows), windows[1] > 0
    for other in (again.read(*windows), exported.read(*windows)):  # type: ignore[operator]
        assert other.keys() == logits.keys()
        for name, values in logits.items():
            torch.testing.assert_close(values[seen], other[name][seen], atol=1e-5, rtol=1e-5)
    for name, weight in model.named_parameters():
        if ".matches." in name:
            torch.nn.init.zeros_(weight)
    assert not torch.allclose(
        model.read(*windows)["utilization"][seen], logits["utilization"][seen]
    )


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=12),
    st.integers(0, 2**29),
)
def test_kinds_are_those_of_the_definition(window: list[tuple[int, int]], beyond: int) -> None:
    def kind_of(i: int, j: int) -> int:
        """How token i is found in token j: not, alone, or beside the same neighbour."""
        if window[i][0] != window[j][0] or window[i][1] == window[j][1]:
            return 0
        ends = range(len(window))
        return 1 + any(
            i + step in ends and j + step in ends and window[i + step][0] == window[j + step][0]
            for step in (-1, 1)
        )

    expected = [max(kind_of(i, j) for j in range(len(window))) for i in range(len(window))]
    ids, segments = (torch.tensor([column]) for column in zip(*window, strict=True))
    assert match_kinds(ids, segments).tolist() == [expected]
    # The largest ids are not an exception, nor is another window beside.
    pair = match_kinds(torch.cat([ids, ids + beyond]), torch.cat([segments, segments]))
    assert pair.tolist() == [expected, expected] and pair.dtype == torch.int64
