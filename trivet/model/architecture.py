"""Names of the variants of a model; imports nothing."""

from __future__ import annotations

from typing import Literal, get_args

HeadName = Literal["support", "relevance", "utilization", "evidence"]
HEAD_NAMES: tuple[HeadName, ...] = get_args(HeadName)
DEFAULT_HEADS = HEAD_NAMES[:3]  # evidence needs labels that few data sets have
CONTEXT_HEADS = HEAD_NAMES[1:3]  # judge context tokens
EVIDENCE_STATES = 64  # width of the evidence head: a response's half, then a context's half
TrunkKind = Literal["shared", "separate", "partial"]
Granularity = Literal["token", "example"]
Reduction = Literal["weakest_token", "weakest_sentence", "two_weakest_sentences"]

# Keys of ``RagModel.architecture()`` that ``bundle.json`` lacks, kept in ``encoder.json``.
ENCODER_KEYS = (
    *("encoder", "dropout", "pooled_support", "support_classes", "support_norm"),
    "matches",
)
