"""``trivet.evaluate``: one example, judged by the embedded bundle."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation


def evaluate(
    question: str,
    contexts: Sequence[Any] | str,
    response: str,
    *,
    id: str | None = None,  # noqa: A002 (the field's name in every record)
    allow_empty_contexts: bool = False,
    threshold: float | None = None,
) -> Evaluation:
    """Evaluate one example with the embedded bundle; see ``Evaluator.evaluate``.

    The bundle is loaded at the first call and kept.
    """
    return _default_evaluator().evaluate(
        question,
        contexts,
        response,
        id=id,
        allow_empty_contexts=allow_empty_contexts,
        threshold=threshold,
    )


@functools.cache
def _default_evaluator() -> Evaluator:
    return Evaluator()
