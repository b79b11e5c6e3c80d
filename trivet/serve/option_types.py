"""Types of the options of an evaluation in the requests of each server."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from trivet.interface import check_threshold
from trivet.settings import ThresholdName


def _check_threshold(value: Any) -> Any:
    """Refuse a threshold in one sentence, not in one for each kind that it may be of."""
    try:
        check_threshold(value)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return value


Threshold: TypeAlias = Annotated[
    Annotated[float, Field(ge=0, le=1)] | ThresholdName | None,
    BeforeValidator(_check_threshold),
    Field(description="Threshold of support, or the name of one of the bundle's."),
]
Strict: TypeAlias = Annotated[
    bool, Field(description="Count what a person should check as unsupported.")
]
