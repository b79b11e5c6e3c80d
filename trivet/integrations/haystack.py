"""Provides a Haystack component for evaluation pipelines, which can be serialized.

Example: ``pipeline.add_component("trivet", TrivetEvaluator())``
"""

from __future__ import annotations

import functools
from typing import Any

import trivet
from trivet.integrations.judge import SCORES, example, import_tool, judge_many, score_columns


def __getattr__(name: str) -> Any:
    if name == "TrivetEvaluator":
        return _component()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _component() -> Any:
    core = import_tool("haystack", "haystack-ai")

    class TrivetEvaluator:
        """Evaluates answers; its outputs are the metrics of an ``EvaluationRunResult``."""

        def __init__(
            self, bundle: str | None = None, threads: int | None = None, options: Any = None
        ) -> None:
            # Named arguments alone are serialized, so options are a dictionary.
            self.bundle, self.threads, self.options = bundle, threads, options
            self.judge: Any = None

        def warm_up(self) -> None:
            """Load the bundle, unless ``judge`` is set."""
            self.judge = self.judge or trivet.Evaluator(self.bundle, self.threads)

        @core.component.output_types(**dict.fromkeys(SCORES, dict[str, Any]))
        def run(
            self, questions: list[str], contexts: list[list[Any]], predicted_answers: list[str]
        ) -> dict[str, dict[str, Any]]:
            """Evaluate answers together; contexts are strings or documents."""
            self.warm_up()
            rows = zip(questions, contexts, predicted_answers, strict=True)
            examples = [example(*row) for row in rows]
            return score_columns(judge_many(self.judge, examples, **(self.options or {})))

    # Serialized pipelines name the class by its module and qualified name.
    TrivetEvaluator.__qualname__ = "TrivetEvaluator"
    return core.component(TrivetEvaluator)
