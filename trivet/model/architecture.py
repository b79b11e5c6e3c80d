"""Names of the variants of a model; imports nothing."""

from __future__ import annotations

from typing import Literal

HeadName = Literal["support", "relevance", "utilization"]
TrunkKind = Literal["shared", "separate", "partial"]
Granularity = Literal["token", "example"]
Reduction = Literal["weakest_token", "weakest_sentence"]
