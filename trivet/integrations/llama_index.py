"""Provides LlamaIndex evaluators, for ``BatchEvalRunner`` and for single responses.

Example: ``BatchEvalRunner(evaluators(), workers=64)``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.errors import ExampleError
from trivet.integrations.judge import SCORES, Judge, VerdictCache, field_of, import_tool, reason
from trivet.records import Evaluation


def evaluators(
    judge: Judge | None = None, thresholds: Mapping[str, float] | None = None, **options: Any
) -> dict[str, Any]:
    """Return one ``BaseEvaluator`` per score, by the name of the score.

    Concurrent responses are evaluated together, each once. One that cannot be evaluated is an
    invalid result with its reason.

    Args:
        judge: Evaluator or client; ``None`` uses the embedded bundle.
        thresholds: Least passing value by score. Without one, ``passing`` is whether the response
            is adherent for faithfulness, and ``None`` for other scores.
        options: Options of the judge, such as ``threshold``.

    Raises:
        ValueError: ``thresholds`` names an unknown score.
    """
    library = import_tool("llama_index.core.evaluation", "llama-index-core")
    base: Any = library.BaseEvaluator
    cache = VerdictCache(judge, **options)
    limits = dict(thresholds or {})
    for score in limits:
        field_of(score)

    class TrivetEvaluator(base):
        def __init__(self, score: str) -> None:
            self._score = score

        def _get_prompts(self) -> dict[str, Any]:
            return {}

        def _update_prompts(self, prompts: dict[str, Any]) -> None:
            """There is no prompt."""

        async def aevaluate(
            self, query: Any = None, response: Any = None, contexts: Any = None, **kwargs: Any
        ) -> Any:
            texts = {"query": query, "response": response, "contexts": contexts}
            try:
                verdict = await cache.evaluate_async(query, contexts, response)
            except ExampleError as error:
                return library.EvaluationResult(
                    **texts, invalid_result=True, invalid_reason=f"{error.code}: {error}"
                )
            return library.EvaluationResult(
                **texts,
                score=getattr(verdict, field_of(self._score)),
                passing=passing(verdict, self._score, limits.get(self._score)),
                feedback=reason(verdict, self._score),
            )

    return {score: TrivetEvaluator(score) for score in SCORES}


def passing(verdict: Evaluation, score: str, threshold: float | None) -> bool | None:
    """Return whether a score passes; ``None`` if that is undefined."""
    value: float | None = getattr(verdict, field_of(score))
    if threshold is None or value is None:
        return verdict.adherent if score == "faithfulness" else None
    return value >= threshold
