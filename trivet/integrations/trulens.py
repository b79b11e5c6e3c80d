"""TruLens: metrics on recorded runs.

from trivet.integrations.trulens import metrics

TruApp(app, feedbacks=metrics())
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from trivet.integrations.gathering import Gathering
from trivet.integrations.judge import SCORES, Judge, foreign, reason
from trivet.records import ExampleError

Scored: TypeAlias = tuple[float, dict[str, str]]


def metrics(judge: Judge | None = None) -> list[Any]:
    """Return one ``Metric`` a score, on a record's input, retrieved contexts and output.

    A record is judged once for all of them.

    Args:
        judge: Who judges; ``None`` is the embedded bundle. Metrics that TruLens runs later, in
            another process, always ask the embedded bundle.

    Raises:
        MissingLibraryError: TruLens is not installed.
    """
    core = foreign("trulens.core", "trulens-core")
    gathering = _default_gathering() if judge is None else Gathering(judge)
    select = core.Selector
    selectors = {
        "question": select.select_record_input(),
        "contexts": select.select_context(collect_list=True),
        "response": select.select_record_output(),
    }
    return [
        core.Metric(
            name=f"trivet_{score}",
            implementation=_function(score, gathering),
            selectors=selectors,
            min_score_val=0,
            max_score_val=1,
        )
        for score in SCORES
    ]


def __getattr__(name: str) -> Any:
    """Return a score's function; TruLens writes down its address, and reads it by that."""
    if name in SCORES:
        return _function(name, _default_gathering())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _default_gathering() -> Gathering:
    return Gathering()


def _function(score: str, gathering: Gathering) -> Callable[[Any, Any, Any], Scored]:
    def score_of(question: Any, contexts: Any, response: Any) -> Scored:
        verdict = gathering.ask(question, contexts, response)
        value: float | None = getattr(verdict, SCORES[score])
        if value is None:
            raise ExampleError(f"there is no {score} without a response")
        return value, {"reason": reason(verdict, score)}

    score_of.__name__ = score_of.__qualname__ = score
    return score_of
