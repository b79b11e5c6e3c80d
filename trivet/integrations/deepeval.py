"""DeepEval: metrics for ``assert_test`` in pytest and for ``deepeval.evaluate``.

    from trivet.integrations.deepeval import metrics

    assert_test(test_case, metrics())

A test case needs ``input``, ``actual_output`` and ``retrieval_context``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.integrations.gathering import Gathering
from trivet.integrations.judge import SCORES, Judge, field_of, foreign, reason
from trivet.records import Evaluation

_FAITHFUL = 0.5  # for a judge that knows no threshold of its own


def metrics(
    judge: Judge | None = None, thresholds: Mapping[str, float | None] | None = None
) -> list[Any]:
    """Return one ``BaseMetric`` a score.

    Args:
        judge: Who judges; ``None`` is the embedded bundle.
        thresholds: The least value of a score that passes; ``None`` lets any pass. A score that is
            not named has none, but faithfulness has the bundle's.

    Raises:
        MissingLibraryError: DeepEval is not installed.
        ValueError: A threshold is for no score.
    """
    base: Any = foreign("deepeval.metrics", "deepeval").BaseMetric
    gathering = Gathering(judge)
    limits = {"faithfulness": _threshold(gathering.judge), **(thresholds or {})}
    for score in limits:
        field_of(score)

    class TrivetMetric(base):
        """One score of the verdict, with its threshold."""

        def __init__(self, name: str, threshold: float | None) -> None:
            self.name, self.threshold = name, threshold

        def measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float | None:
            return self._take(gathering.ask(*_texts(test_case)))

        async def a_measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float | None:
            return self._take(await gathering.ask_async(*_texts(test_case)))

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


def _threshold(judge: Judge) -> float:
    """Return the bundle's own threshold of faithfulness."""
    bundle = getattr(judge, "bundle", None)
    return _FAITHFUL if bundle is None else float(bundle.info.thresholds.adherence)
