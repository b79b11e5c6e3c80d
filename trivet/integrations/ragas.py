"""Provides RAGAS metrics, for ``ragas.evaluate`` and for single samples.

Needs the extra ``ragas``. Example: ``ragas.evaluate(dataset, metrics=metrics())``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trivet.integrations.batching import RequestBatcher
from trivet.integrations.judge import SCORES, Judge, field_of, import_tool, score_of


def metrics(judge: Judge | None = None, scores: Sequence[str] = tuple(SCORES)) -> list[Any]:
    """Return one ``SingleTurnMetric`` per score, named ``trivet_faithfulness`` and so on.

    Concurrent samples are evaluated together, each once for all scores. An unknown score raises a
    ``ValueError``.
    """
    library = import_tool("ragas.metrics.base", "trivet[ragas]")
    base: Any = library.SingleTurnMetric
    batcher = RequestBatcher(judge)
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
            return score_of(await batcher.evaluate_async(*texts), self._score)

    return [TrivetMetric(score) for score in scores]
