"""A judge that counts its calls, on the embedded bundle, and rows for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

import trivet
from trivet.records import Evaluation, FailedEvaluation, RagExample

Rows: TypeAlias = list[dict[str, Any]]

ROWS: Rows = [
    {
        "question": "When was the bridge built?",
        "contexts": ["The bridge was built in 1790.", "The mill is made of wood."],
        "response": "The bridge was built in 1790.",
    },
    {
        "question": "Who keeps the lighthouse?",
        "contexts": ["The lighthouse has had no keeper since 1931."],
        "response": "A keeper of the name of Jonas lives there with two dogs.",
    },
    {
        "question": "Where does the ferry cross?",
        "contexts": ["The ferry crosses north of the town.", "Bread is sold at the pier."],
        "response": "It crosses north of the town. Tickets cost four euros.",
    },
]


class CountingJudge:
    """An evaluator that counts the examples of each call."""

    def __init__(self, evaluator: trivet.Evaluator) -> None:
        self.evaluator = evaluator
        self.bundle = evaluator.bundle
        self.calls: list[int] = []

    def evaluate(
        self, question: str, contexts: Sequence[str], response: str, **options: Any
    ) -> Evaluation:
        self.calls.append(1)
        return self.evaluator.evaluate(question, contexts, response, **options)

    def evaluate_many(
        self, examples: Iterable[RagExample], **options: Any
    ) -> Iterator[Evaluation | FailedEvaluation]:
        batch = list(examples)
        self.calls += [len(batch)] if batch else []
        return self.evaluator.evaluate_many(batch, **options)


@pytest.fixture
def judge(embedded: trivet.Evaluator) -> CountingJudge:
    return CountingJudge(embedded)


@pytest.fixture
def single_judge(embedded: trivet.Evaluator) -> SimpleNamespace:
    """Return a judge without ``evaluate_many``."""
    return SimpleNamespace(evaluate=embedded.evaluate)


@pytest.fixture
def rows() -> Rows:
    return [dict(row) for row in ROWS]


@pytest.fixture(scope="session")
def verdicts(embedded: trivet.Evaluator) -> list[Evaluation]:
    """Return the verdicts on the rows."""
    return [embedded.evaluate(**row) for row in ROWS]


@pytest.fixture
def expected(verdicts: list[Evaluation]) -> Callable[[str], Any]:
    """Return a function from a field to its values in the verdicts on the rows.

    The values are approximate, as the last digits may differ in another batch.
    """

    def values(field: str) -> Any:
        return pytest.approx([getattr(verdict, field) for verdict in verdicts], abs=0.02)

    return values
