"""Thresholds on support, chosen on a dev split.

The sentence threshold is chosen by whole responses: one is flagged if its faithfulness and a
sentence's support are **below** it. The span threshold follows: the words below it are marked in
the flagged sentences, or, where there are none, the whole sentence.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from trivet.data.tokenization import TokenizedExample
from trivet.measures.curves import FloatArray, tie_ends
from trivet.measures.false_alarms import conformal_threshold, faithful_responses, too_small
from trivet.measures.predictions import marked_characters
from trivet.records import LabelledExample, Span
from trivet.settings import FALSE_ALARMS

logger = logging.getLogger(__name__)

DEFAULT_THRESHOLD = 0.5
_CANDIDATES = 200  # span thresholds that are tried
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class BestThreshold:
    """A threshold on support, and the F1 of flagging what is below it."""

    threshold: float
    f1: float


@dataclass(frozen=True)
class Column:
    """The n items of one threshold: responses or words."""

    support: FloatArray  # in [0, 1]
    unsupported: FloatArray  # unsupported amount: 0 or 1, or characters
    size: FloatArray  # amount flagged with the item, >= unsupported
    example: npt.NDArray[np.int64]  # index of the item's example
    examples: int  # number of examples with known labels
    sentence: npt.NDArray[np.int64]  # index of a word's sentence, over all examples
    deciding_support: FloatArray  # that of the sentence, as of ``DevScores``

    def rows(self, scores: Sequence[DevScores]) -> list[LabelledExample]:
        """Return the example of each item."""
        return [scores[place].example for place in self.example]


@dataclass(frozen=True)
class DevScores:
    """The scores of one labelled example, before any threshold."""

    example: LabelledExample
    sentence_support: npt.NDArray[np.floating]  # in [0, 1] [S]
    token_offsets: npt.NDArray[np.integer]  # characters of the response tokens [R, 2]
    token_support: npt.NDArray[np.floating]  # in [0, 1] [R]
    token_sentence: npt.NDArray[np.integer]  # sentence of each token [R]
    faithfulness: float  # in [0, 1]

    @classmethod
    def of(
        cls,
        example: LabelledExample,
        tokens: TokenizedExample,
        sentences: npt.NDArray[np.floating],
        support: npt.NDArray[np.floating],
        faithfulness: float,
    ) -> Self:
        """Return an example with its sentence and token support, which may be padded."""
        response, count = tokens.response, len(tokens.response_sentence_spans)
        own = sentences[:count], response.offsets, support[: len(response)]
        return cls(example, *own, tokens.response_sentence, float(faithfulness))

    def deciding_support(self) -> FloatArray:
        """Return the support of each sentence that a threshold is compared with. *Shape:* [S].

        A sentence is unsupported if its own support and the faithfulness of the response are below.
        """
        return np.maximum(self.sentence_support.astype(np.float64), self.faithfulness)


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


def choose_sentence_threshold(
    column: Column, scores: Sequence[DevScores], false_alarms: float | None
) -> float | None:
    """Return the threshold with a rate of false alarms on responses, or without one of best F1.

    The rate is kept in each data set that has enough documents; ``None`` if none has.
    """
    if false_alarms is not None:
        found = [
            conformal_threshold(one.support, one.documents, false_alarms)
            for one in faithful_responses(column.rows(scores), column.support)
        ]
        return min((one for one in found if one is not None), default=None)
    best = best_threshold(column.support, column.unsupported)
    return best.threshold if best else None


def choose_span_threshold(words: Column, sentence: float) -> float | None:
    """Return the span threshold of the best F1 of marked characters, given that of sentences."""
    below = words.deciding_support < sentence
    if not (words.unsupported[below] > 0).any():
        return None
    values = np.unique(np.quantile(words.support[below], np.linspace(0, 1, _CANDIDATES)))
    values = np.append((values[1:] + values[:-1]) / 2, 1.0)

    def f1(threshold: float) -> float:
        marked = marked_words(words, sentence, threshold)
        hits, flagged = words.unsupported[marked].sum(), words.size[marked].sum()
        return float(2 * hits / (flagged + words.unsupported.sum()))

    return float(max(values, key=f1))


def marked_words(words: Column, sentence: float, span: float) -> npt.NDArray[np.bool_]:
    """Return which words a verdict marks: the weak ones of unsupported sentences, or all."""
    count = int(words.sentence.max(initial=-1)) + 1
    weakest = np.ones(count)
    np.minimum.at(weakest, words.sentence, words.support)
    weak = (words.support < span) | (weakest[words.sentence] >= span)
    return weak & (words.deciding_support < sentence)


def choose_thresholds(
    scores: Sequence[DevScores], false_alarms: float | None = FALSE_ALARMS
) -> tuple[float, float]:
    """Choose the sentence and the span threshold on a dev split; unknown labels are left out.

    With too few documents for the rate the sentence threshold has the best F1; with one class, a
    threshold is .5. Both are logged, and so is a data set with too few documents.
    """
    columns = threshold_columns(scores)
    responses, words = columns["sentence"], columns["span"]
    one_class = "%s threshold stays at %s: the labels of %d dev examples hold one class or none"
    wrong, sentence = responses.unsupported > 0, None
    if wrong.any() and not wrong.all():
        sentence = choose_sentence_threshold(responses, scores, false_alarms)
        faithful = faithful_responses(responses.rows(scores), responses.support)
        for small in too_small(faithful, false_alarms):
            logger.warning("%s", small.words())
        if sentence is None:
            logger.warning("too few dev documents for the rate of false alarms; best F1 instead")
            sentence = choose_sentence_threshold(responses, scores, None)
    if sentence is None:
        logger.warning(one_class, "sentence", DEFAULT_THRESHOLD, responses.examples)
        sentence = DEFAULT_THRESHOLD
    span = choose_span_threshold(words, sentence)
    if span is None:
        logger.warning(one_class, "span", DEFAULT_THRESHOLD, words.examples)
        span = DEFAULT_THRESHOLD
    return sentence, span


def threshold_columns(scores: Iterable[DevScores]) -> dict[str, Column]:
    """Return the items with known labels of each threshold: responses and words.

    Spans are snapped to whole words, so the support of a word is the least of its tokens and its
    size its characters. Spaces inside a flagged run, dropped runs of punctuation and scripts
    without spaces are not considered.
    """
    responses: list[_Part] = []
    words: list[_Part] = []
    sentences = 0
    for place, one in enumerate(scores):
        labels = one.example.labels
        if labels.adherent is not None and len(one.token_support):
            weakest = one.deciding_support()[np.unique(one.token_sentence)].min()
            support, wrong = np.array([weakest], float), np.array([not labels.adherent], float)
            responses.append((place, (support, wrong, np.ones(1), np.zeros(1), support)))
        if labels.unsupported is not None:
            words.append((place, _words(one, labels.unsupported, sentences)))
            sentences += len(one.sentence_support)
    return {"sentence": _column(responses), "span": _column(words)}


_Part = tuple[int, tuple[FloatArray, ...]]  # index of the example; fields of its items


def _column(parts: Sequence[_Part]) -> Column:
    empty = np.zeros(0)
    columns = [np.concatenate(each) for each in zip(*(values for _, values in parts), strict=True)]
    support, unsupported, size, sentence, of_sentence = columns or [empty] * 5
    counts = [len(values[0]) for _, values in parts]
    example = np.repeat(np.array([place for place, _ in parts], dtype=np.int64), counts)
    sentence = sentence.astype(np.int64)
    return Column(support, unsupported, size, example, len(parts), sentence, of_sentence)


def _words(one: DevScores, unsupported: Sequence[Span], sentences: int) -> tuple[FloatArray, ...]:
    """Return support, unsupported and all characters, sentence and its support of each word."""
    response = one.example.example.response
    words = np.array([match.span() for match in _WORD.finditer(response)], dtype=np.int64)
    words = words.reshape(-1, 2)
    support, sentence = np.ones(len(words)), np.full(len(words), -1)
    # A token belongs to the last word that begins before the token ends: some tokenizers let a
    # token start at the space before the word.
    home = np.searchsorted(words[:, 0], one.token_offsets[:, 1], side="left") - 1
    real = home >= 0
    np.minimum.at(support, home[real], np.asarray(one.token_support, dtype=float)[real])
    sentence[home[real]] = one.token_sentence[real]
    read = sentence >= 0
    of_sentence = np.ones(len(words))
    of_sentence[read] = one.deciding_support()[sentence[read]]
    totals = np.concatenate([[0], np.cumsum(marked_characters(len(response), unsupported))])
    gold = (totals[words[:, 1]] - totals[words[:, 0]]).astype(float)
    size = (words[:, 1] - words[:, 0]).astype(float)
    # A word without a token has a sentence support of 1, so no threshold marks it.
    return support, gold, size, np.where(read, sentence, 0) + float(sentences), of_sentence
