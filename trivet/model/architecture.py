"""Names of the variants of a model; imports nothing."""

from __future__ import annotations

from typing import Literal, get_args

HeadName = Literal["support", "relevance", "utilization"]
HEAD_NAMES: tuple[HeadName, ...] = get_args(HeadName)
TrunkKind = Literal["shared", "separate", "partial"]
AnyTrunkKind = Literal["shared", "separate", "partial", "lora"]  # lora is for training alone
Granularity = Literal["token", "example"]
Reduction = Literal["weakest_token", "weakest_sentence"]
