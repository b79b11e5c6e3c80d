"""Provides a LangChain ``Runnable`` from rows to verdicts.

Example: ``(chain | runnable()).invoke(...)``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.errors import ExampleError
from trivet.integrations.judge import Judge, default_judge, import_tool, judge_rows, verdict_of
from trivet.records import Evaluation


def runnable(judge: Judge | None = None, mapping: Mapping[str, str] | None = None) -> Any:
    """Return a ``Runnable`` from a dictionary to an ``Evaluation``.

    ``batch`` evaluates its inputs together. Contexts may be strings or ``Document`` objects.
    """
    base: Any = import_tool("langchain_core.runnables", "langchain-core").Runnable
    chosen = judge or default_judge()

    def judge_one(row: Mapping[str, Any]) -> Evaluation:
        (result,) = judge_rows(chosen, [row], mapping)
        return verdict_of(result)

    class TrivetRunnable(base):
        def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:  # noqa: A002
            return self._call_with_config(judge_one, input, config)

        def batch(
            self,
            inputs: list[Any],
            config: Any = None,
            *,
            return_exceptions: bool = False,
            **kwargs: Any,
        ) -> list[Any]:
            outputs: list[Any] = []
            for result in judge_rows(chosen, inputs, mapping):
                try:
                    outputs.append(verdict_of(result))
                except ExampleError as error:
                    if not return_exceptions:
                        raise
                    outputs.append(error)
            return outputs

    return TrivetRunnable()
