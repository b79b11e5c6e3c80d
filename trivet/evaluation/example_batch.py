"""Examples that are evaluated together: the steps after their windows were scheduled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from trivet.bundle.bundle import Bundle
from trivet.data.tokenization import FloatArray
from trivet.errors import BackendError
from trivet.evaluation.postprocessing import Decision, to_evaluation, to_result, with_sources
from trivet.evaluation.preprocessing import PreprocessedExample, Refusal
from trivet.evaluation.window_queue import Job
from trivet.interface import Result
from trivet.model.aggregate import Outputs, logits_of
from trivet.records import Evaluation, FailedEvaluation, RagExample


class Joined(NamedTuple):
    """The probabilities of an example, from the answers to all of its windows."""

    example: PreprocessedExample
    outputs: Outputs
    evidence: FloatArray | None  # logits of pairs of sentences [S, X]


@dataclass(frozen=True, slots=True)
class ExampleBatch:
    """Examples that are evaluated together; made by ``Evaluator.prepare``."""

    examples: Sequence[RagExample | PreprocessedExample | FailedEvaluation]
    prepared: Sequence[PreprocessedExample | Refusal]  # without the failures from the start
    job: Job  # windows of those that were not refused
    bundle: Bundle
    decision: Decision | None  # None without a support head

    def join(self) -> Iterator[Joined | Refusal]:
        """Wait; yield the probabilities of each example that did not fail from the start."""
        self.job.wait()
        info, answered = self.bundle.info, iter(self.job.accumulators)
        layer, fitted = info.calibration.sentence_layer(), info.calibration.completeness
        for example in self.prepared:
            if not isinstance(example, PreprocessedExample):
                yield example
                continue
            answers = next(answered)
            try:
                outputs = answers.join(info.faithfulness, layer)
            except BackendError as error:
                yield error
                continue
            if fitted and outputs.completeness is not None:
                logits = fitted.scale * logits_of(outputs.completeness) + fitted.shift
                outputs = outputs._replace(completeness=1 / (1 + np.exp(-logits)))
            yield Joined(example, outputs, answers.evidence)

    def verdicts(self) -> list[Evaluation | Refusal]:
        """Wait; return the verdict on each example that did not fail from the start."""
        return [
            self._verdict(joined) if isinstance(joined, Joined) else joined
            for joined in self.join()
        ]

    def _verdict(self, joined: Joined) -> Evaluation | BackendError:
        try:
            verdict = to_evaluation(joined.example, joined.outputs, self.decision)
            if self.bundle.revision:
                verdict = replace(verdict, revision=self.bundle.revision)
            tokens, evidence = joined.example.tokens, self.bundle.info.evidence
            return with_sources(verdict, tokens, joined.evidence, evidence)
        except BackendError as error:
            return error

    def results(self) -> list[Result]:
        """Wait; return one result for each example, in order, also for failures."""
        outcomes = iter(self.verdicts())
        return [
            row if isinstance(row, FailedEvaluation) else to_result(next(outcomes), row.id)
            for row in self.examples
        ]

    def cancel(self) -> None:
        """Drop the windows that have not run; there are no results then."""
        self.job.cancel()
