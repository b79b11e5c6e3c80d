"""Cosines between the heads' gradients of shared parameters (Yu et al., arXiv 2001.06782, 2).

Below 0, a step that helps one head harms the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import cast

import torch
from torch import Tensor, nn


def gradient_cosines(
    losses: Mapping[str, Tensor], parameters: Iterable[nn.Parameter]
) -> dict[str, Tensor]:
    """Return the cosine of each pair of heads, ``support_relevance`` and so on, in [-1, 1].

    Only parameters that every head's loss reaches count. Heads with a loss of 0 are left out. The
    parameters' gradients and the graph are left unchanged.
    """
    asked = [parameter for parameter in parameters if parameter.requires_grad]
    found: dict[str, tuple[Tensor | None, ...]] = {
        head: torch.autograd.grad(loss, asked, retain_graph=True, allow_unused=True)
        for head, loss in losses.items()
        if loss.detach() != 0
    }
    shared = [
        place
        for place in range(len(asked))
        if all(gradients[place] is not None for gradients in found.values())
    ]
    flat = {
        head: torch.cat([cast(Tensor, gradients[place]).flatten().float() for place in shared])
        for head, gradients in found.items()
        if shared
    }
    return {
        f"{one}_{other}": nn.functional.cosine_similarity(flat[one], flat[other], dim=0)
        for one, other in combinations(flat, 2)
    }
