"""Labelled answers read sentence by sentence, as a stream does, and the threshold that halts it.

An answer halts if the support of one of its sentences is below the threshold, each judged when it
ended. The threshold keeps the rate of answers that halt although they are faithful, in each data
set with enough of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from trivet.errors import ExampleError, WindowError
from trivet.evaluation.answer_stream import SentenceReader
from trivet.evaluation.evaluation_job import Reading
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.postprocessing import to_evaluation
from trivet.evaluation.preprocessing import PreprocessedExample, Preprocessor, Refusal
from trivet.evaluation.streams import prefetch
from trivet.labelled.grouping import data_set
from trivet.measures.false_alarms import (
    Alarms,
    Faithful,
    conformal_threshold,
    count_alarms,
    faithful_responses,
    needed_documents,
)
from trivet.records import Evaluation, LabelledExample, RagExample

T = TypeVar("T")
_SENTENCES = 256  # sentences that are evaluated together

PlacedSentence = tuple[int, PreprocessedExample]
"""Place of an answer, and one of its sentences."""


def stream_sentences(
    examples: Sequence[LabelledExample], preprocessor: Preprocessor
) -> Iterator[PlacedSentence]:
    """Yield the sentences with a claim of all answers, each as it is read when it ended.

    An answer that cannot be evaluated has none.
    """
    for place, one in enumerate(examples):
        bare = RagExample(one.example.question, tuple(one.example.contexts), "")
        try:
            reader = SentenceReader(preprocessor, bare, "evidence")
            sentences = reader.feed(one.example.response) + reader.flush()
        except (ExampleError, WindowError):
            continue
        for each in sentences:
            if each.prepared.layout.roles[-1] == "claim":
                yield place, each.prepared


def in_blocks(items: Iterable[T], size: int = _SENTENCES) -> Iterator[list[T]]:
    """Yield items in blocks that are held and read together."""
    items = iter(items)
    while block := list(itertools.islice(items, size)):
        yield block


def read_outcomes(
    evaluator: Evaluator,
    examples: Iterable[RagExample | PreprocessedExample],
    reading: Reading[T],
    size: int = _SENTENCES,
) -> Iterator[T | Refusal]:
    """Yield what is read from each example, in order; ``size`` of them are evaluated together."""
    for job in prefetch(in_blocks(examples, size), evaluator.begin):
        yield from job.outcomes(reading)


def choosing(examples: Iterable[LabelledExample], prefixes: Sequence[str]) -> list[LabelledExample]:
    """Return the examples with a verdict whose source begins with a prefix; of all without any."""
    wanted = tuple(prefixes) or ("",)
    return [
        one for one in examples if one.source.startswith(wanted) and one.labels.adherent is not None
    ]


def read_streams(evaluator: Evaluator, examples: Sequence[LabelledExample]) -> list[Streamed]:
    """Return the least support of each answer's sentences, by the loaded graph."""
    weakest = [1.0] * len(examples)
    placed, sentences = itertools.tee(stream_sentences(examples, evaluator.preprocessor))
    verdicts = read_outcomes(evaluator, (each for _, each in sentences), to_evaluation)
    for (place, _), verdict in zip(placed, verdicts, strict=True):
        if not isinstance(verdict, Evaluation):
            raise verdict
        support = verdict.sentences[-1].support
        weakest[place] = min(weakest[place], 1.0 if support is None else support)
    return [Streamed(*pair) for pair in zip(examples, weakest, strict=True)]


FALSE_HALTS = 0.05
"""Highest share of the faithful answers of a data set that halt."""


class Streamed(NamedTuple):
    """A labelled answer, and the least support of its sentences with a claim (1 without one)."""

    example: LabelledExample
    weakest: float


@dataclass(frozen=True)
class ChosenHalt:
    """The threshold of single sentences, and what halts at it."""

    threshold: float | None  # None if no data set has enough documents
    data: tuple[Alarms, ...] = ()

    def lines(self) -> list[str]:
        """Return the outcome, and a line for each data set."""
        if self.threshold is None:
            least = needed_documents(FALSE_HALTS)
            return [f"halt: no data set has {least} documents with a faithful answer; none chosen"]
        return [
            f"halt: threshold {self.threshold:.4f} for single sentences of a stream, at most "
            f"{100 * FALSE_HALTS:g} % of the faithful answers of each data set",
            *(f"halt, {one.words()}" for one in self.data),
        ]


def choose_halt(answers: Sequence[Streamed]) -> ChosenHalt:
    """Return the highest threshold that keeps the rate; answers without a verdict are left out.

    The rate is kept among a data set's answers, and for the answers of a new document.
    """
    known = [one for one in answers if one.example.labels.adherent is not None]
    rows, support = [one.example for one in known], np.array([one.weakest for one in known])
    found = [each for each in map(_highest, faithful_responses(rows, support)) if each is not None]
    if not found:
        return ChosenHalt(None)
    threshold = min(found)
    names = [data_set(row) for row in rows]
    return ChosenHalt(threshold, count_alarms(names, rows, support, threshold))


def _highest(data: Faithful) -> float | None:
    """Return the highest threshold that keeps the rate in one data set; ``None``: too few."""
    answers = [str(number) for number in range(len(data.support))]
    of_documents, of_answers = (
        conformal_threshold(data.support, units, FALSE_HALTS) for units in (data.documents, answers)
    )
    return None if of_documents is None or of_answers is None else min(of_documents, of_answers)
