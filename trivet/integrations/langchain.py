"""LangChain: a ``Runnable`` from rows to verdicts, to stand at the end of a chain.

from trivet.integrations.langchain import runnable

(chain | runnable()).invoke(...)    # the chain gives question, context and answer
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.integrations.judge import Judge, default_judge, error_of, foreign, verdict_of
from trivet.integrations.rows import judge_rows
from trivet.records import Evaluation, FailedEvaluation


def runnable(judge: Judge | None = None, mapping: Mapping[str, str] | None = None) -> Any:
    """Return a ``Runnable`` from a dictionary to an ``Evaluation``; ``batch`` judges together.

    Contexts may be strings or ``Document`` objects.

    Args:
        judge: Who judges; ``None`` is the embedded bundle.
        mapping: Other names of the fields, such as ``{"question": "prompt"}``.

    Raises:
        MissingLibraryError: LangChain is not installed.
    """
    base: Any = foreign("langchain_core.runnables", "langchain-core").Runnable
    chosen = judge or default_judge()

    def judge_one(row: Mapping[str, Any]) -> Evaluation:
        (result,) = judge_rows(chosen, [row], mapping)
        return verdict_of(result)

    class TrivetRunnable(base):
        """Judges what a chain has answered."""

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
            results = judge_rows(chosen, inputs, mapping)
            if not return_exceptions:
                return [verdict_of(result) for result in results]
            return [error_of(r) if isinstance(r, FailedEvaluation) else r for r in results]

    return TrivetRunnable()
