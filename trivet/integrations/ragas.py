"""RAGAS: metrics for ``ragas.evaluate`` and for single samples.

    from ragas import evaluate
    from trivet.integrations.ragas import metrics

    evaluate(dataset, metrics=metrics())

RAGAS asks for many samples at a time; they are judged together, and each once for all scores.
Needs ``pip install 'trivet[ragas]'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trivet.integrations.gathering import Gathering
from trivet.integrations.judge import SCORES, Judge, field_of, foreign
from trivet.records import ExampleError


def metrics(judge: Judge | None = None, scores: Sequence[str] = tuple(SCORES)) -> list[Any]:
    """Return one ``SingleTurnMetric`` a score, named ``trivet_faithfulness`` and so on.

    Args:
        judge: Who judges; ``None`` is the embedded bundle.
        scores: Of ``SCORES``.

    Raises:
        MissingLibraryError: RAGAS is not installed.
        ValueError: There is no such score.
    """
    library = foreign("ragas.metrics.base", "trivet[ragas]")
    base: Any = library.SingleTurnMetric
    gathering = Gathering(judge)
    columns = {library.MetricType.SINGLE_TURN: {"user_input", "retrieved_contexts", "response"}}

    class TrivetMetric(base):
        """One score of the verdict; a sample without it fails, as RAGAS expects."""

        def __init__(self, score: str) -> None:
            super().__init__(_required_columns=columns, name=f"trivet_{score}")
            self._score, self._field = score, field_of(score)

        def init(self, run_config: Any) -> None:
            """Nothing is to be set up: there is no language model."""

        async def _single_turn_ascore(self, sample: Any, callbacks: Any) -> float:
            verdict = await gathering.ask_async(
                sample.user_input, sample.retrieved_contexts, sample.response
            )
            value: float | None = getattr(verdict, self._field)
            if value is None:
                raise ExampleError(f"there is no {self._score} without a response")
            return value

    return [TrivetMetric(score) for score in scores]
