"""One row of a judged log as the pages take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trivet.records import FailedEvaluation


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A row: its texts where they are at hand, and either a verdict or an error.

    Attributes:
        row: Its number in the input, counted from 1.
        id: Its name, where it has one.
        question: ``None`` where the text is not at hand; so with ``contexts`` and ``response``.
        contexts: The passages.
        response: The answer.
        verdict: `Evaluation.to_dict()`, perhaps with fields left out; ``None`` where it failed.
        error: Why there is no verdict.
        metadata: Column to value, for grouping.
        context_ids: The passages' own names, where they brought any.
    """

    row: int
    id: str | None = None
    question: str | None = None
    contexts: tuple[str, ...] | None = None
    response: str | None = None
    verdict: Mapping[str, Any] | None = None
    error: FailedEvaluation | None = None
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    context_ids: tuple[str | None, ...] = ()
