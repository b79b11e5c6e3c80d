"""Examples that wait for the backend or run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from trivet.bundle.bundle import Thresholds
from trivet.evaluation.job import InferenceJob
from trivet.evaluation.postprocessing import to_evaluation, to_result
from trivet.evaluation.preprocessing import PreprocessedExample, Refusal
from trivet.model.aggregate import Outputs
from trivet.records import Evaluation, FailedEvaluation, RagExample

if TYPE_CHECKING:
    from trivet.evaluation.evaluator import Evaluator

T = TypeVar("T")
Reading: TypeAlias = Callable[[PreprocessedExample, Outputs, Thresholds], T]


def check_threshold(threshold: float | None) -> None:
    """Raise ``ValueError`` if the threshold of a call is not in [0, 1]."""
    if threshold is not None and not 0 <= threshold <= 1:
        raise ValueError(f"threshold must be in [0, 1], got {threshold}")


class EvaluationJob:
    """Examples that wait for the backend or run; see ``Evaluator.begin``."""

    def __init__(
        self,
        evaluator: Evaluator,
        examples: Sequence[RagExample | PreprocessedExample | FailedEvaluation],
        allow_empty_contexts: bool = False,
        threshold: float | None = None,
    ) -> None:
        check_threshold(threshold)
        self._evaluator = evaluator
        self._examples = examples
        self._threshold = threshold
        self.preprocessed = evaluator.preprocessor.preprocess(
            [each for each in examples if not isinstance(each, FailedEvaluation)],
            allow_empty_contexts=allow_empty_contexts,
        )
        self._inference = InferenceJob(
            [each.layout for each in self.preprocessed if isinstance(each, PreprocessedExample)],
            evaluator.backend,
            evaluator._pool,
            evaluator.pad,
            evaluator.limits,
        )

    def only(self, reading: Reading[T]) -> T:
        """Wait; return the outcome of the only example, or raise its error."""
        (outcome,) = self.outcomes(reading)
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    def outcomes(self, reading: Reading[T]) -> list[T | Refusal]:
        """Wait; return the outcome of each example that is no failure from the start."""
        answers = self._inference.wait()
        return self._evaluator.postprocess(self.preprocessed, answers, reading, self._threshold)

    def results(self) -> list[Evaluation | FailedEvaluation]:
        """Wait; return one result for each example, in order, also for failures."""
        outcomes = iter(self.outcomes(to_evaluation))
        return [
            each if isinstance(each, FailedEvaluation) else to_result(next(outcomes), each.id)
            for each in self._examples
        ]

    def cancel(self) -> None:
        """Drop the calls that have not run; there are no results then."""
        self._inference.cancel()
