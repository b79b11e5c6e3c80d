"""Labelled examples with their verdicts, and probabilities with their labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trivet.data.sentence_features import share_nowhere, words_of
from trivet.data.spans import mark_tokens
from trivet.heads import CONTEXT_HEADS, HEADS, HeadName
from trivet.measures.curves import BoolArray, FloatArray, IntArray
from trivet.records import ContextSpan, Evaluation, FailedEvaluation, LabelledExample, Labels, Span


class Interval(Protocol):
    """Characters of a text."""

    @property
    def start(self) -> int:
        """First character."""

    @property
    def end(self) -> int:
        """Character after the last one."""


@dataclass(frozen=True)
class Prediction:
    """A labelled example and its verdict, or the failure to give one."""

    example: LabelledExample
    evaluation: Evaluation | FailedEvaluation


@dataclass(frozen=True)
class Units:
    """Scored units of one kind: responses, response sentences or context sentences."""

    rows: IntArray  # positions of the compared rows in the given list [n]
    row: IntArray  # index into ``rows`` of each unit [U]
    probs: FloatArray  # of the positive class, in [0, 1] [U]
    positive: BoolArray  # labels [U]
    failed: int  # rows with a truth and no verdict


def scored_units(rows: Sequence[Prediction]) -> dict[str, Units]:
    """Return the units that have a probability and a label, by kind.

    ``hallucination``: responses, positive = not adherent. ``support``: response sentences, positive
    = touched by an unsupported span; sentences without a claim are left out. Each context head:
    context sentences, positive = touched by a span of that label.

    Raises:
        ValueError: A verdict holds a number that is not finite.
    """
    return {
        "hallucination": response_units(rows),
        "support": _sentence_units(rows, "support", "adherent"),
        **{name: _sentence_units(rows, name, name) for name in CONTEXT_HEADS},
    }


def response_units(rows: Sequence[Prediction]) -> Units:
    """Return the responses that have a verdict and a label; positive = not adherent."""
    kept, verdicts, failed = verdicts_of(
        rows, lambda labels: labels.adherent is not None, "adherent"
    )
    scores = 1 - finite(verdicts, [support_of(verdict) for verdict in verdicts])
    positive = np.array([rows[i].example.labels.adherent is False for i in kept], dtype=bool)
    return Units(kept, np.arange(len(kept)), scores, positive, failed)


def support_of(verdict: Evaluation) -> float | None:
    """Return the faithfulness of a response, 1 of an abstention: it claims nothing wrong."""
    return 1.0 if verdict.abstains else verdict.faithfulness


def counted_probs(rows: Sequence[Prediction], kept: IntArray) -> FloatArray:
    """Return the share of content words that no context has, of the responses at ``kept`` [n]."""
    texts = [rows[row].example.example for row in kept.tolist()]
    return np.array([share_nowhere(text.response, words_of(text.contexts)) for text in texts])


def _sentence_units(rows: Sequence[Prediction], name: HeadName, score: str) -> Units:
    """Return the sentences whose label is known, of the verdicts that have a score."""
    label = HEADS[name].labels[0]
    kept, verdicts, failed = verdicts_of(
        rows, lambda labels: getattr(labels, label) is not None, score
    )
    probs, positive = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    for row, verdict in zip(kept, verdicts, strict=True):
        spans = getattr(rows[row].example.labels, label)
        if name == "support":
            judged = [sentence for sentence in verdict.sentences if sentence.supported is not None]
            probs.append(1 - finite([verdict], [sentence.support for sentence in judged]))
            positive.append(touched_sentences(judged, spans))
        else:
            sentences = [sentence for context in verdict.contexts for sentence in context.sentences]
            probs.append(finite([verdict], [getattr(sentence, name) for sentence in sentences]))
            positive.append(marked_sentences(verdict, spans))
    row = np.repeat(np.arange(len(kept)), [len(values) for values in probs[1:]])
    return Units(kept, row, np.concatenate(probs), np.concatenate(positive), failed)


def verdicts_of(
    rows: Sequence[Prediction], known: Callable[[Labels], bool], score: str
) -> tuple[IntArray, list[Evaluation], int]:
    """Return the rows with truth and score, their verdicts, and the number with truth alone.

    A response that leaves nothing to be complete counts in neither.
    """
    kept, verdicts, failed = [], [], 0
    for i, row in enumerate(rows):
        if not known(row.example.labels):
            continue
        if isinstance(row.evaluation, Evaluation) and getattr(row.evaluation, score) is not None:
            kept.append(i)
            verdicts.append(row.evaluation)
        elif score != "completeness" or getattr(row.evaluation, "utilization", None) is None:
            failed += 1
    return np.array(kept, dtype=np.int64), verdicts, failed


def finite(verdicts: Sequence[Evaluation], values: Sequence[float | None]) -> FloatArray:
    """Return values of verdicts as an array, or refuse those that are missing or not finite."""
    array = np.array(values, dtype=float)
    if not np.isfinite(array).all():
        ids = [verdict.id for verdict in verdicts][:5]
        raise ValueError(
            f"{int((~np.isfinite(array)).sum())} of {len(array)} numbers in the verdicts on {ids} "
            "are missing or not finite; the backend that made them must not be measured"
        )
    return array


def marked_sentences(verdict: Evaluation, spans: Sequence[ContextSpan]) -> BoolArray:
    """Return whether a span touches each context sentence, in order."""
    marks = [np.zeros(0, dtype=bool)]
    for number, context in enumerate(verdict.contexts):
        here = [span for span in spans if span.context == number]
        marks.append(touched_sentences(context.sentences, here))
    return np.concatenate(marks)


def marked_characters(length: int, spans: Sequence[Interval]) -> BoolArray:
    """Return whether a span covers each character of a text. *Shape:* [length]."""
    marks = np.zeros(length, dtype=bool)
    for span in spans:
        marks[span.start : span.end] = True
    return marks


def touched_sentences(sentences: Sequence[Interval], spans: Sequence[Interval]) -> BoolArray:
    """Return whether a span touches each sentence. *Shape:* [sentences]."""
    offsets = np.array([(sentence.start, sentence.end) for sentence in sentences], dtype=np.int64)
    return mark_tokens(offsets.reshape(-1, 2), [Span(span.start, span.end) for span in spans])
