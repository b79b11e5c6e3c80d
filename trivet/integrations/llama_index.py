"""LlamaIndex: evaluators for ``BatchEvalRunner`` and for single responses.

from trivet.integrations.llama_index import evaluators

BatchEvalRunner(evaluators(), workers=64)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trivet.integrations.gathering import Gathering
from trivet.integrations.judge import SCORES, Judge, field_of, foreign, reason
from trivet.records import Evaluation, ExampleError


def evaluators(
    judge: Judge | None = None, thresholds: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Return one ``BaseEvaluator`` a score, by the name of the score.

    What the runner's workers ask at a time is judged together, and each response once. One that
    cannot be judged is an invalid result, with its reason.

    Args:
        judge: Who judges; ``None`` is the embedded bundle.
        thresholds: The least value of a score that passes. Without one ``passing`` is ``None``, but
            for faithfulness it is whether the bundle finds the response adherent.

    Raises:
        MissingLibraryError: LlamaIndex is not installed.
        ValueError: A threshold is for no score.
    """
    library = foreign("llama_index.core.evaluation", "llama-index-core")
    base: Any = library.BaseEvaluator
    gathering = Gathering(judge)
    limits = dict(thresholds or {})
    for score in limits:
        field_of(score)

    class TrivetEvaluator(base):
        """One score of the verdict."""

        def __init__(self, score: str) -> None:
            self._score = score

        def _get_prompts(self) -> dict[str, Any]:
            return {}

        def _update_prompts(self, prompts: dict[str, Any]) -> None:
            """There is no prompt."""

        async def aevaluate(
            self,
            query: str | None = None,
            response: str | None = None,
            contexts: Sequence[str] | None = None,
            **kwargs: Any,
        ) -> Any:
            given = {"query": query, "response": response, "contexts": contexts}
            try:
                verdict = await gathering.ask_async(query, contexts, response)
            except ExampleError as error:
                return library.EvaluationResult(
                    **given, invalid_result=True, invalid_reason=f"{error.code}: {error}"
                )
            return library.EvaluationResult(
                **given,
                score=getattr(verdict, field_of(self._score)),
                passing=passing(verdict, self._score, limits.get(self._score)),
                feedback=reason(verdict, self._score),
            )

    return {score: TrivetEvaluator(score) for score in SCORES}


def passing(verdict: Evaluation, score: str, threshold: float | None) -> bool | None:
    """Say whether a score passes; ``None`` where nobody said what would."""
    value: float | None = getattr(verdict, field_of(score))
    if threshold is None or value is None:
        return verdict.adherent if score == "faithfulness" else None
    return value >= threshold
