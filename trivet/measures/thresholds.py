"""Thresholds on support, chosen on a dev split for the best F1 or for a precision.

An item (response, sentence or word) is unsupported if its support is **below** the threshold.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trivet.measures.curves import FloatArray, tie_ends
from trivet.measures.predictions import marked_characters, touched_sentences
from trivet.records import LabelledExample, Span

logger = logging.getLogger(__name__)

DEFAULT_THRESHOLD = 0.5
Items = tuple[FloatArray, FloatArray, FloatArray]  # support, unsupported, size
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class BestThreshold:
    """A threshold on support, and the F1 of flagging what is below it."""

    threshold: float
    f1: float


@dataclass(frozen=True)
class Column:
    """The n items of one threshold: responses, sentences or words."""

    support: FloatArray  # in [0, 1]
    unsupported: FloatArray  # unsupported amount: 0 or 1, or characters
    size: FloatArray  # amount flagged with the item, >= unsupported
    example: npt.NDArray[np.int64]  # index of the item's example
    examples: int  # number of examples with known labels


@dataclass(frozen=True)
class DevScores:
    """The scores of one labelled example, before any threshold."""

    example: LabelledExample
    faithfulness: float | None  # in [0, 1]; None without a response
    sentence_spans: Sequence[Span]  # of the response
    sentence_support: npt.NDArray[np.floating]  # in [0, 1] [S]
    token_offsets: npt.NDArray[np.integer]  # characters of the response tokens [R, 2]
    token_support: npt.NDArray[np.floating]  # in [0, 1] [R]


def best_threshold(
    support: FloatArray, unsupported: FloatArray, size: FloatArray | None = None
) -> BestThreshold | None:
    """Return the threshold on support with the best F1 of the flagged items.

    Args:
        support: Support in [0, 1]. *Shape:* [n].
        unsupported: Unsupported amount of each item. *Shape:* [n].
        size: Amount flagged with each item, >= unsupported; 1 by default. *Shape:* [n].

    Returns:
        The threshold, half way between the two values it separates and at most 1, so that a support
        of exactly 1 is never flagged; among equals the one that flags least. None if nothing or
        everything is unsupported.
    """
    ranked = _flagged_below(support, unsupported, size)
    if ranked is None:
        return None
    f1 = np.where(ranked.flaggable, 2 * ranked.hits / (ranked.flagged + ranked.gold), -1.0)
    best = int(np.argmax(f1))
    if f1[best] < 0:
        return None
    return BestThreshold(ranked.threshold(best), float(f1[best]))


def precise_threshold(
    support: FloatArray,
    unsupported: FloatArray,
    least_precision: float,
    size: FloatArray | None = None,
) -> BestThreshold | None:
    """Return the threshold that flags most with at least a given precision, in (0, 1].

    Arguments and result are those of ``best_threshold``; None also if no threshold is that precise.
    """
    ranked = _flagged_below(support, unsupported, size)
    if ranked is None:
        return None
    # Floating-point slack, so that 9 of 10 counts as 0.9.
    precise = ranked.flaggable & (ranked.hits >= (least_precision - 1e-12) * ranked.flagged)
    if not precise.any():
        return None
    last = int(np.flatnonzero(precise)[-1])
    f1 = 2 * ranked.hits[last] / (ranked.flagged[last] + ranked.gold)
    return BestThreshold(ranked.threshold(last), float(f1))


@dataclass(frozen=True)
class _Flagged:
    """Flagged amounts for each possible threshold, rising. *Shape of each:* [m]."""

    below: FloatArray  # the highest support that is flagged
    hits: FloatArray
    flagged: FloatArray
    gold: float

    @property
    def flaggable(self) -> npt.NDArray[np.bool_]:
        """Whether a threshold of at most 1 can flag that much."""
        return self.below < 1

    def threshold(self, place: int) -> float:
        """Return the middle between the flagged and the next higher support."""
        below = self.below[place]
        above = self.below[place + 1] if place + 1 < len(self.below) else 1.0
        middle = (below + above) / 2
        # The middle of two adjacent floating-point numbers may round down to the lower one.
        return float(middle if middle > below else above)


def _flagged_below(
    support: FloatArray, unsupported: FloatArray, size: FloatArray | None
) -> _Flagged | None:
    """Rank by support; None if nothing or everything is unsupported."""
    size = np.ones(len(support)) if size is None else size
    gold = unsupported.sum()
    if not 0 < gold < size.sum():
        return None
    order = np.argsort(support, kind="stable")
    ranked = support[order].astype(np.float64)
    ends = tie_ends(ranked)
    hits, flagged = np.cumsum(unsupported[order])[ends], np.cumsum(size[order])[ends]
    return _Flagged(ranked[ends], hits, flagged, float(gold))


def choose_thresholds(scores: Iterable[DevScores]) -> dict[str, BestThreshold | None]:
    """Choose all three thresholds for best F1 on a dev split; unknown labels are left out.

    Spans are snapped to whole words, so the support of a word is the least of its tokens and its
    size its characters. Spaces inside a flagged run, dropped runs of punctuation and scripts
    without spaces are not considered. Without both classes a threshold is None, with a warning.
    """
    columns = threshold_columns(scores)
    words = "%s threshold stays at %s: the labels of %d dev examples hold one class or none"
    best = {}
    for name, column in columns.items():
        best[name] = best_threshold(column.support, column.unsupported, column.size)
        if best[name] is None:
            logger.warning(words, name, DEFAULT_THRESHOLD, column.examples)
    return best


def threshold_columns(scores: Iterable[DevScores]) -> dict[str, Column]:
    """Return the items with known labels of each threshold, by its name."""
    found: dict[str, list[tuple[int, Items]]] = {"adherence": [], "sentence": [], "span": []}
    for place, one in enumerate(scores):
        labels = one.example.labels
        if labels.adherent is not None and one.faithfulness is not None:
            wrong = np.array([not labels.adherent], float)
            found["adherence"].append((place, (np.array([one.faithfulness]), wrong, np.ones(1))))
        if labels.unsupported is not None:
            found["sentence"].append((place, _sentences(one, labels.unsupported)))
            found["span"].append((place, _words(one, labels.unsupported)))
    return {name: _column(parts) for name, parts in found.items()}


def _column(parts: Sequence[tuple[int, Items]]) -> Column:
    if not parts:
        empty = np.zeros(0)
        return Column(empty, empty, empty, np.zeros(0, np.int64), 0)
    columns = zip(*(values for _, values in parts), strict=True)
    support, unsupported, size = (np.concatenate(column) for column in columns)
    counts = [len(values[0]) for _, values in parts]
    example = np.repeat(np.array([place for place, _ in parts], dtype=np.int64), counts)
    return Column(support, unsupported, size, example, len(parts))


def _sentences(one: DevScores, unsupported: Sequence[Span]) -> Items:
    support = np.asarray(one.sentence_support, dtype=float)
    truth = touched_sentences(one.sentence_spans, unsupported)
    return support, truth.astype(float), np.ones(len(support))


def _words(one: DevScores, unsupported: Sequence[Span]) -> Items:
    response = one.example.example.response
    words = np.array([match.span() for match in _WORD.finditer(response)], dtype=np.int64)
    words = words.reshape(-1, 2)
    support = np.ones(len(words))
    # A token belongs to the last word that begins before the token ends: some tokenizers let a
    # token start at the space before the word.
    home = np.searchsorted(words[:, 0], one.token_offsets[:, 1], side="left") - 1
    real = home >= 0
    np.minimum.at(support, home[real], np.asarray(one.token_support, dtype=float)[real])
    totals = np.concatenate([[0], np.cumsum(marked_characters(len(response), unsupported))])
    gold = (totals[words[:, 1]] - totals[words[:, 0]]).astype(float)
    return support, gold, (words[:, 1] - words[:, 0]).astype(float)
