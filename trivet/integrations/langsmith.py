"""LangSmith: an evaluator for ``Client.evaluate``; a plain function that needs no library.

from trivet.integrations.langsmith import evaluator

Client().evaluate(target, data=..., evaluators=[evaluator()])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from trivet.integrations.gathering import Gathering
from trivet.integrations.judge import Judge, reason, scores_of
from trivet.integrations.rows import read_row

Evaluate: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], list[dict[str, Any]]]


def evaluator(judge: Judge | None = None, mapping: Mapping[str, str] | None = None) -> Evaluate:
    """Return a function of the ``inputs`` and the ``outputs`` of a run.

    Question, contexts and response are looked for in both, under the names of the common tools.
    LangSmith calls it from many threads; what they ask at a time is judged together.

    Args:
        judge: Who judges; ``None`` is the embedded bundle.
        mapping: Other names, such as ``{"question": "prompt"}``.

    Returns:
        The function. It returns ``{"key", "score", "comment"}`` for each score, and raises
        ``ExampleError`` where a run cannot be judged.
    """
    gathering = Gathering(judge)

    def trivet(inputs: dict[str, Any], outputs: dict[str, Any]) -> list[dict[str, Any]]:
        row = read_row({**inputs, **outputs}, mapping)
        verdict = gathering.ask(row.question, row.contexts, row.response)
        return [
            {"key": score, "score": value, "comment": reason(verdict, score)}
            for score, value in scores_of(verdict).items()
        ]

    return trivet
