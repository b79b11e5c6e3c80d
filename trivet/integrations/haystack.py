"""Haystack: a component for evaluation pipelines.

    from trivet.integrations.haystack import TrivetEvaluator

    pipeline.add_component("trivet", TrivetEvaluator())

The class is made when it is first asked for; a pipeline that holds it can be written and read.
"""

from __future__ import annotations

import functools
from typing import Any

import trivet
from trivet.integrations.judge import SCORES, foreign, judge_many
from trivet.integrations.rows import example
from trivet.integrations.score_columns import score_columns


def __getattr__(name: str) -> Any:
    if name == "TrivetEvaluator":
        return _component()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _component() -> Any:
    core = foreign("haystack", "haystack-ai")

    class TrivetEvaluator:
        """Judges answers; its outputs are the metrics of an ``EvaluationRunResult``."""

        def __init__(self, bundle: str | None = None, threads: int | None = None) -> None:
            """Choose the bundle; ``None`` is the embedded one."""
            self.bundle, self.threads = bundle, threads
            self.judge: Any = None  # anything with `.evaluate`; loaded late

        def warm_up(self) -> None:
            """Load the bundle; a ``judge`` that was set before stays."""
            self.judge = self.judge or trivet.Evaluator(self.bundle, self.threads)

        @core.component.output_types(**dict.fromkeys(SCORES, dict[str, Any]))
        def run(
            self, questions: list[str], contexts: list[list[Any]], predicted_answers: list[str]
        ) -> dict[str, dict[str, Any]]:
            """Judge answers together; contexts are strings or documents."""
            self.warm_up()
            rows = zip(questions, contexts, predicted_answers, strict=True)
            return score_columns(judge_many(self.judge, [example(*row) for row in rows]))

    # As if it stood in the module: pipelines are written with the class's address.
    TrivetEvaluator.__qualname__ = "TrivetEvaluator"
    return core.component(TrivetEvaluator)
