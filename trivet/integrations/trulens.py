"""Provides TruLens metrics on recorded runs.

Example: ``TruApp(app, feedbacks=metrics())``
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trivet.integrations.judge import SCORES, Judge, RequestBatcher, import_tool, reason, score_of


def metrics(judge: Judge | None = None) -> list[Any]:
    """Return one ``Metric`` per score, on a record's input, retrieved contexts and output.

    A record is evaluated once for all scores. Metrics that TruLens runs later, in another process,
    always use the embedded bundle.
    """
    core = import_tool("trulens.core", "trulens-core")
    batcher = _default_batcher() if judge is None else RequestBatcher(judge)
    select = core.Selector
    selectors = {
        "question": select.select_record_input(),
        "contexts": select.select_context(collect_list=True),
        "response": select.select_record_output(),
    }
    return [
        core.Metric(
            name=f"trivet_{score}",
            implementation=_function(score, batcher),
            selectors=selectors,
            min_score_val=0,
            max_score_val=1,
        )
        for score in SCORES
    ]


def __getattr__(name: str) -> Any:
    """Return the function of a score, which TruLens stores by its module and name."""
    if name in SCORES:
        return _function(name, _default_batcher())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _default_batcher() -> RequestBatcher:
    return RequestBatcher()


def _function(score: str, batcher: RequestBatcher) -> Callable[..., Any]:
    def function(question: Any, contexts: Any, response: Any) -> tuple[float, dict[str, str]]:
        verdict = batcher.evaluate(question, contexts, response)
        return score_of(verdict, score), {"reason": reason(verdict, score)}

    function.__name__ = function.__qualname__ = score
    return function
