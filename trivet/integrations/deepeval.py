"""Provides DeepEval metrics, for ``assert_test`` and ``deepeval.evaluate``.

Example: ``assert_test(test_case, metrics())``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.integrations.judge import SCORES, Judge, VerdictCache, field_of, import_tool, reason
from trivet.records import Evaluation


def metrics(
    judge: Judge | None = None, thresholds: Mapping[str, float | None] | None = None
) -> list[Any]:
    """Return one ``BaseMetric`` per score.

    Test cases need ``input``, ``actual_output`` and ``retrieval_context``.

    Args:
        judge: Evaluator or client; ``None`` uses the embedded bundle.
        thresholds: Least passing value by score; ``None`` passes any value. Defaults to the
            bundle's threshold for faithfulness and to ``None`` for other scores.

    Raises:
        ValueError: ``thresholds`` names an unknown score.
    """
    base: Any = import_tool("deepeval.metrics", "deepeval").BaseMetric
    cache = VerdictCache(judge)
    limits = {"faithfulness": default_threshold(cache.judge), **(thresholds or {})}
    for score in limits:
        field_of(score)

    class TrivetMetric(base):
        def __init__(self, name: str, threshold: float | None) -> None:
            self.name, self.threshold = name, threshold

        def measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float | None:
            return self._take(cache.evaluate(*_texts(test_case)))

        async def a_measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float | None:
            return self._take(await cache.evaluate_async(*_texts(test_case)))

        def _take(self, verdict: Evaluation) -> float | None:
            value: float | None = getattr(verdict, field_of(self.name))
            self.score, self.reason = value, reason(verdict, self.name)
            self.is_successful()
            return value

        @property
        def __name__(self) -> str:
            return f"trivet {self.name}"

    return [TrivetMetric(score, limits.get(score)) for score in SCORES]


def _texts(test_case: Any) -> tuple[Any, Any, Any]:
    return test_case.input, test_case.retrieval_context, test_case.actual_output


def default_threshold(judge: Judge) -> float:
    """Return the bundle's threshold of sentences, or 0.5 for a judge without one."""
    bundle = getattr(judge, "bundle", None)
    thresholds = None if bundle is None else bundle.info.thresholds
    return 0.5 if thresholds is None else float(thresholds.sentence)
