"""Initial models for tests, by the settings that matter to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trivet.configs.schema import EncoderConfig, TrainConfig
from trivet.data.tokenization import SegmentTokenizer
from trivet.heads import DEFAULT_HEADS, HeadName
from trivet.model.architecture import Granularity, Reduction
from trivet.model.rag_model import RagModel
from trivet.training import initialization


def initial_model(
    name: str,
    init: Any = "plain",
    faithfulness: Reduction = "weakest_sentence",
    *,
    granularity: Granularity = "token",
    heads: Sequence[HeadName] = DEFAULT_HEADS,
    keeps_verdicts: bool = False,
    head_dropout: float = 0.0,
    **encoder: Any,
) -> tuple[RagModel, SegmentTokenizer]:
    """Return the initial model of a configuration; ``encoder`` has further settings of it."""
    settings = EncoderConfig(name=name, init=init, head_dropout=head_dropout, **encoder)
    config = TrainConfig(
        encoder=settings, faithfulness=faithfulness, granularity=granularity, heads=[*heads]
    )
    return initialization.initial_model(config, keeps_verdicts)
