"""Provides a LangChain ``Runnable`` from rows to verdicts, and an evaluator for LangSmith.

Examples: ``(chain | runnable()).invoke(...)`` and
``langsmith.Client().evaluate(target, data=..., evaluators=[evaluator()])``; the evaluator is a
plain function that needs no library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from trivet.errors import ExampleError
from trivet.integrations.judge import (
    Judge,
    VerdictCache,
    default_judge,
    import_tool,
    judge_rows,
    read_row,
    reason,
    scores_of,
    verdict_of,
)
from trivet.records import Evaluation


def runnable(
    judge: Judge | None = None, mapping: Mapping[str, str] | None = None, **options: Any
) -> Any:
    """Return a ``Runnable`` from a dictionary to an ``Evaluation``.

    ``batch`` evaluates its inputs together. Contexts may be strings or ``Document`` objects.
    """
    base: Any = import_tool("langchain_core.runnables", "langchain-core").Runnable
    chosen = judge or default_judge()

    def judge_one(row: Mapping[str, Any]) -> Evaluation:
        (result,) = judge_rows(chosen, [row], mapping, **options)
        return verdict_of(result)

    class TrivetRunnable(base):
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
            return self._call_with_config(judge_one, input, config)

        def batch(
            self, inputs: Any, config: Any = None, *, return_exceptions: bool = False, **kwargs: Any
        ) -> list[Any]:
            outputs: list[Any] = []
            for result in judge_rows(chosen, inputs, mapping, **options):
                try:
                    outputs.append(verdict_of(result))
                except ExampleError as error:
                    if not return_exceptions:
                        raise
                    outputs.append(error)
            return outputs

    return TrivetRunnable()


Evaluate: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], list[dict[str, Any]]]


def evaluator(
    judge: Judge | None = None, mapping: Mapping[str, str] | None = None, **options: Any
) -> Evaluate:
    """Return a function of the ``inputs`` and the ``outputs`` of a run.

    Question, contexts and response are read from both, by the field names of the common tools.
    Concurrent runs are evaluated together.

    Returns:
        A function that returns ``{"key", "score", "comment"}`` for each score, and raises
        ``ExampleError`` if a run cannot be evaluated.
    """
    cache = VerdictCache(judge, **options)

    def trivet(inputs: dict[str, Any], outputs: dict[str, Any]) -> list[dict[str, Any]]:
        row = read_row({**inputs, **outputs}, mapping)
        verdict = cache.evaluate(row.question, row.contexts, row.response)
        return [
            {"key": score, "score": value, "comment": reason(verdict, score)}
            for score, value in scores_of(verdict).items()
        ]

    return trivet
