"""Provides DeepEval metrics, for ``assert_test`` and ``deepeval.evaluate``.

Example: ``assert_test(test_case, metrics())``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.integrations.judge import SCORES, Judge, VerdictCache, field_of, import_tool, reason
from trivet.records import Evaluation


def metrics(
    judge: Judge | None = None, thresholds: Mapping[str, float | None] | None = None, **options: Any
) -> list[Any]:
    """Return one ``BaseMetric`` per score.

    Test cases need ``input``, ``actual_output`` and ``retrieval_context``.

    Args:
        judge: Evaluator or client; ``None`` uses the embedded bundle.
        thresholds: Least passing value by score; ``None`` passes any value. Without one,
            faithfulness passes if the response is adherent, and other scores pass.
        options: Options of the judge, such as ``threshold``.

    Raises:
        ValueError: ``thresholds`` names an unknown score.
    """
    base: Any = import_tool("deepeval.metrics", "deepeval").BaseMetric
    cache = VerdictCache(judge, **options)
    # DeepEval wants a metric with a threshold, also where the verdict decides.
    limits = {"faithfulness": 0.0, **(thresholds or {})}
    by_verdict = {"faithfulness"} - (thresholds or {}).keys()
    for score in limits:
        field_of(score)

    class TrivetMetric(base):
        adherent: bool | None = None

        def __init__(self, name: str, threshold: float | None, by_verdict: bool) -> None:
            self.name, self.threshold, self.by_verdict = name, threshold, by_verdict

        def measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float | None:
            return self._take(cache.evaluate(*_texts(test_case)))

        async def a_measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float | None:
            return self._take(await cache.evaluate_async(*_texts(test_case)))

        def _take(self, verdict: Evaluation) -> float | None:
            value: float | None = getattr(verdict, field_of(self.name))
            self.score, self.reason = value, reason(verdict, self.name)
            self.adherent = verdict.adherent
            self.is_successful()
            return value

        def is_successful(self) -> bool | None:
            passes: bool | None = super().is_successful()
            if self.by_verdict:
                # None, of a response without words, would pass.
                passes = self.success = self.error is None and self.adherent is True
            return passes

        @property
        def __name__(self) -> str:
            return f"trivet {self.name}"

    return [TrivetMetric(score, limits.get(score), score in by_verdict) for score in SCORES]


def _texts(test_case: Any) -> tuple[Any, Any, Any]:
    return test_case.input, test_case.retrieval_context, test_case.actual_output
