"""Description of the sources that an evidence head names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class EvidenceInfo(BaseModel):
    """From a pair's logit to a source: sigmoid(scale * logit + shift + lexical_overlap * overlap).

    Fitted on dev rows. The overlap is that of ``data.lexical_overlap.pair_overlaps``.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    scale: float = Field(gt=0)
    shift: float
    lexical_overlap: float = 0.0
    # probability from which a context sentence is a source of a response sentence
    threshold: float = Field(ge=0, le=1)
