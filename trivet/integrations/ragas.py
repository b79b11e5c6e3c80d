"""Provides RAGAS metrics: for experiments and single samples, and for ``ragas.evaluate``.

Example: ``ragas.evaluate(dataset, metrics=metrics())``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trivet.integrations.judge import (
    SCORES,
    Judge,
    VerdictCache,
    field_of,
    import_tool,
    reason,
    score_of,
)

# ragas 0.4 cannot be imported with a later langchain-community.
_PACKAGES = "ragas>=0.4.3,<0.5' 'langchain-community<0.4"


def metrics(
    judge: Judge | None = None, scores: Sequence[str] = tuple(SCORES), **options: Any
) -> list[Any]:
    """Return one ``SingleTurnMetric`` per score, named ``trivet_faithfulness`` and so on.

    Concurrent samples are evaluated together, each once for all scores. An unknown score raises a
    ``ValueError``.
    """
    library = import_tool("ragas.metrics.base", _PACKAGES)
    base: Any = library.SingleTurnMetric
    cache = VerdictCache(judge, **options)
    columns = {library.MetricType.SINGLE_TURN: {"user_input", "retrieved_contexts", "response"}}

    class TrivetMetric(base):
        def __init__(self, score: str) -> None:
            field_of(score)
            super().__init__(_required_columns=columns, name=f"trivet_{score}")
            self._score = score

        def init(self, run_config: Any) -> None:
            """There is no language model to set up."""

        async def _single_turn_ascore(self, sample: Any, callbacks: Any) -> float:
            texts = (sample.user_input, sample.retrieved_contexts, sample.response)
            return score_of(await cache.evaluate_async(*texts), self._score)

    return [TrivetMetric(score) for score in scores]


def collection_metrics(
    judge: Judge | None = None, scores: Sequence[str] = tuple(SCORES), **options: Any
) -> list[Any]:
    """Return the same as metrics of ``ragas.metrics.collections``, which experiments use.

    ``await metric.ascore(user_input=..., response=..., retrieved_contexts=[...])`` returns a
    ``MetricResult`` with value and reason. ``ragas.evaluate``, which RAGAS 0.4 calls deprecated,
    takes those of ``metrics``.
    """
    base: Any = import_tool("ragas.metrics.collections.base", _PACKAGES).BaseMetric
    result: Any = import_tool("ragas.metrics.result", _PACKAGES).MetricResult
    cache = VerdictCache(judge, **options)

    class TrivetMetric(base):
        def __init__(self, score: str) -> None:
            field_of(score)
            super().__init__(name=f"trivet_{score}")
            self._score = score

        async def ascore(
            self, user_input: str, response: str, retrieved_contexts: Sequence[str]
        ) -> Any:
            verdict = await cache.evaluate_async(user_input, retrieved_contexts, response)
            value = score_of(verdict, self._score)
            return result(value=value, reason=reason(verdict, self._score))

    return [TrivetMetric(score) for score in scores]
