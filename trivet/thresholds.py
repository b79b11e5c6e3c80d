"""Thresholds that give the best F1 of what is unsupported, chosen on a dev split.

Everywhere in the house a thing is unsupported when its support is **below** the threshold.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trivet.data.spans import mark_tokens
from trivet.records import LabelledExample, Span

logger = logging.getLogger(__name__)

FloatArray = npt.NDArray[np.float64]
DEFAULT_THRESHOLD = 0.5
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class BestThreshold:
    """A threshold on support and the F1 of the unsupported below it."""

    threshold: float
    f1: float


@dataclass(frozen=True)
class DevScores:
    """What a model said of one labelled example, before any threshold.

    Attributes:
        example: The example and its labels.
        faithfulness: In [0, 1]; None without a response.
        sentence_spans: [S] the sentences of the response.
        sentence_support: [S] in [0, 1].
        token_offsets: [R, 2] characters of the response.
        token_support: [R] in [0, 1].
    """

    example: LabelledExample
    faithfulness: float | None
    sentence_spans: Sequence[Span]
    sentence_support: npt.NDArray[np.floating]
    token_offsets: npt.NDArray[np.integer]
    token_support: npt.NDArray[np.floating]


@dataclass(frozen=True)
class ChosenThresholds:
    """The thresholds of a bundle and the dev F1 of each; F1 is None where the default was kept.

    Attributes:
        adherence: A response with a faithfulness below it is hallucinated.
        sentence: A sentence with a support below it is unsupported.
        span: A token with a support below it is unsupported.
        adherence_f1: Of hallucinated responses.
        sentence_f1: Of unsupported sentences.
        span_f1: Of unsupported characters.
    """

    adherence: float
    sentence: float
    span: float
    adherence_f1: float | None
    sentence_f1: float | None
    span_f1: float | None


def best_threshold(
    support: FloatArray, unsupported: FloatArray, size: FloatArray | None = None
) -> BestThreshold | None:
    """Return the threshold on support whose flagged things have the best F1.

    Args:
        support: [n] in [0, 1].
        unsupported: [n] how much of each is truly unsupported: 0 or 1, or characters.
        size: [n] how much each counts when flagged, >= unsupported; 1 each by default.

    Returns:
        The threshold, half way between the two neighbouring values it separates and at most 1, so
        that a support of exactly 1 is never flagged; among equals the one that flags least. None
        where nothing or everything is unsupported: then there is no choice to make.
    """
    size = np.ones(len(support)) if size is None else size
    gold = unsupported.sum()
    if not 0 < gold < size.sum():
        return None
    order = np.argsort(support, kind="stable")
    ranked = support[order].astype(np.float64)
    ends = np.flatnonzero(np.concatenate([ranked[1:] != ranked[:-1], [True]]))
    hits, flagged = np.cumsum(unsupported[order])[ends], np.cumsum(size[order])[ends]
    f1 = np.where(ranked[ends] < 1, 2 * hits / (flagged + gold), -1.0)
    best = int(np.argmax(f1))
    if f1[best] < 0:
        return None
    below = ranked[ends[best]]
    above = ranked[ends[best + 1]] if best + 1 < len(ends) else 1.0
    threshold = (below + above) / 2
    # Of two adjacent floating-point numbers the middle may round down to the lower one.
    return BestThreshold(float(threshold if threshold > below else above), float(f1[best]))


def choose_thresholds(scores: Iterable[DevScores]) -> ChosenThresholds:
    """Choose all three thresholds for best F1 on a dev split; unknown labels are left out.

    Spans are snapped to whole words when they are read off, so a word is flagged as soon as one of
    its tokens is: its support is the least of theirs and its size its characters. What is finer
    than that is not seen here: the spaces inside a flagged run, runs that are dropped because they
    are punctuation alone, and scripts without spaces, which are not snapped.

    Where the labels leave no choice (none known, or one class only) the threshold is 0.5, and a
    warning says so.
    """
    columns: dict[str, list[tuple[FloatArray, FloatArray, FloatArray]]] = {
        "adherence": [],
        "sentence": [],
        "span": [],
    }
    for one in scores:
        labels = one.example.labels
        if labels.adherent is not None and one.faithfulness is not None:
            columns["adherence"].append(
                (np.array([one.faithfulness]), np.array([not labels.adherent], float), np.ones(1))
            )
        if labels.unsupported is not None:
            columns["sentence"].append(_sentences(one, labels.unsupported))
            columns["span"].append(_words(one, labels.unsupported))
    best = {
        name: best_threshold(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        if parts
        else None
        for name, parts in columns.items()
    }
    for name, found in best.items():
        if found is None:
            logger.warning(
                "%s threshold stays at %s: the labels of %d dev examples hold one class or none",
                name,
                DEFAULT_THRESHOLD,
                len(columns[name]),
            )
    value = {name: found.threshold if found else DEFAULT_THRESHOLD for name, found in best.items()}
    f1 = {name: found.f1 if found else None for name, found in best.items()}
    return ChosenThresholds(
        adherence=value["adherence"],
        sentence=value["sentence"],
        span=value["span"],
        adherence_f1=f1["adherence"],
        sentence_f1=f1["sentence"],
        span_f1=f1["span"],
    )


def _sentences(
    one: DevScores, unsupported: Sequence[Span]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    offsets = np.array([(span.start, span.end) for span in one.sentence_spans], dtype=np.int64)
    truth = mark_tokens(offsets.reshape(-1, 2), unsupported)
    support = np.asarray(one.sentence_support, dtype=float)
    return support, truth.astype(float), np.ones(len(support))


def _words(
    one: DevScores, unsupported: Sequence[Span]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    response = one.example.example.response
    marks = np.zeros(len(response), dtype=bool)
    for span in unsupported:
        marks[span.start : span.end] = True
    words = np.array([match.span() for match in _WORD.finditer(response)], dtype=np.int64)
    words = words.reshape(-1, 2)
    support = np.ones(len(words))
    # A token belongs to the last word that begins before the token ends: some tokenizers let a
    # token start at the space before the word.
    home = np.searchsorted(words[:, 0], one.token_offsets[:, 1], side="left") - 1
    real = home >= 0
    np.minimum.at(support, home[real], np.asarray(one.token_support, dtype=float)[real])
    totals = np.concatenate([[0], np.cumsum(marks)])
    gold = (totals[words[:, 1]] - totals[words[:, 0]]).astype(float)
    return support, gold, (words[:, 1] - words[:, 0]).astype(float)
