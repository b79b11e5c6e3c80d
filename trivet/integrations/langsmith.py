"""Provides a LangSmith evaluator, as a plain function that needs no library.

Example: ``Client().evaluate(target, data=..., evaluators=[evaluator()])``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from trivet.integrations.batching import RequestBatcher
from trivet.integrations.judge import Judge, read_row, reason, scores_of

Evaluate: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], list[dict[str, Any]]]


def evaluator(judge: Judge | None = None, mapping: Mapping[str, str] | None = None) -> Evaluate:
    """Return a function of the ``inputs`` and the ``outputs`` of a run.

    Question, contexts and response are read from both, by the field names of the common tools.
    Concurrent runs are evaluated together.

    Returns:
        A function that returns ``{"key", "score", "comment"}`` for each score, and raises
        ``ExampleError`` if a run cannot be evaluated.
    """
    batcher = RequestBatcher(judge)

    def trivet(inputs: dict[str, Any], outputs: dict[str, Any]) -> list[dict[str, Any]]:
        row = read_row({**inputs, **outputs}, mapping)
        verdict = batcher.evaluate(row.question, row.contexts, row.response)
        return [
            {"key": score, "score": value, "comment": reason(verdict, score)}
            for score, value in scores_of(verdict).items()
        ]

    return trivet
