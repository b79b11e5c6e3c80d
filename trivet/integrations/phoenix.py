"""Provides a Phoenix evaluator, for ``evaluate_dataframe`` and for single records.

Example: ``evaluate_dataframe(frame, [evaluator()])``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.integrations.judge import Judge, VerdictCache, details, import_tool, reason, scores_of


def evaluator(
    judge: Judge | None = None, mapping: Mapping[str, Any] | None = None, **options: Any
) -> Any:
    """Return an ``Evaluator`` that gives one ``Score`` per score.

    Records have ``question``, ``contexts`` and ``response``. The concurrent tasks of
    ``async_evaluate_dataframe`` are evaluated together. ``mapping`` is for Phoenix's
    ``bind_evaluator``, such as ``{"question": "input.query"}``.
    """
    library = import_tool("phoenix.evals", "arize-phoenix-evals")
    base: Any = library.Evaluator
    pydantic = import_tool("pydantic", "pydantic")
    cache = VerdictCache(judge, **options)
    schema = pydantic.create_model("TrivetInput", question=str, contexts=list[Any], response=str)

    class TrivetEvaluator(base):
        def __init__(self) -> None:
            super().__init__(name="trivet", kind="code", input_schema=schema)

        def _evaluate(self, eval_input: dict[str, Any]) -> list[Any]:
            return self._scores(cache.evaluate(**eval_input))

        async def _async_evaluate(self, eval_input: dict[str, Any]) -> list[Any]:
            return self._scores(await cache.evaluate_async(**eval_input))

        def _scores(self, verdict: Any) -> list[Any]:
            return [
                library.Score(
                    name=score,
                    score=value,
                    explanation=reason(verdict, score),
                    metadata=details(verdict),
                    kind="code",
                )
                for score, value in scores_of(verdict).items()
            ]

    made = TrivetEvaluator()
    return library.bind_evaluator(evaluator=made, input_mapping=dict(mapping)) if mapping else made
