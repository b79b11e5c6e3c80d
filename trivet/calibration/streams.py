"""Labelled answers read sentence by sentence, as a stream reads them while they are written."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from trivet.calibration.halts import Streamed
from trivet.errors import ExampleError, WindowError
from trivet.evaluation.answer_stream import SentenceReader
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.postprocessing import to_evaluation
from trivet.evaluation.preprocessing import PreprocessedExample, Preprocessor
from trivet.records import Evaluation, LabelledExample, RagExample

_BLOCK = 256  # sentences that are evaluated together

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


def in_blocks(sentences: Iterator[PlacedSentence]) -> Iterator[list[PlacedSentence]]:
    """Yield sentences in blocks that are held and read together."""
    while block := list(itertools.islice(sentences, _BLOCK)):
        yield block


def choosing(examples: Iterable[LabelledExample], prefixes: Sequence[str]) -> list[LabelledExample]:
    """Return the examples with a verdict whose source begins with a prefix; of all without any."""
    wanted = tuple(prefixes) or ("",)
    return [
        one for one in examples if one.source.startswith(wanted) and one.labels.adherent is not None
    ]


def read_streams(evaluator: Evaluator, examples: Sequence[LabelledExample]) -> list[Streamed]:
    """Return the least support of each answer's sentences, by the loaded graph."""
    weakest = [1.0] * len(examples)
    sentences = stream_sentences(examples, evaluator.preprocessor)
    for block in in_blocks(sentences):
        job = evaluator.begin([each for _, each in block])
        for (place, _), verdict in zip(block, job.outcomes(to_evaluation), strict=True):
            if not isinstance(verdict, Evaluation):
                raise verdict
            support = verdict.sentences[-1].support
            weakest[place] = min(weakest[place], 1.0 if support is None else support)
    return [Streamed(*pair) for pair in zip(examples, weakest, strict=True)]
