"""The items that thresholds flag, with their labels: whole responses, and words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from trivet.data.tokenization import TokenizedExample
from trivet.measures.curves import FloatArray
from trivet.measures.predictions import marked_characters
from trivet.records import LabelledExample, Span

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class ScoredItems:
    """The n items of one threshold: responses or words."""

    support: FloatArray  # in [0, 1]
    unsupported: FloatArray  # unsupported amount: 0 or 1, or characters
    size: FloatArray  # amount flagged with the item, >= unsupported
    example: npt.NDArray[np.int64]  # index of the item's example
    examples: int  # number of examples with known labels
    sentence: npt.NDArray[np.int64]  # index of a word's sentence, over all examples
    deciding_support: FloatArray  # that of the sentence

    def rows(self, scores: Sequence[DevScores]) -> list[LabelledExample]:
        """Return the example of each item."""
        return [scores[index].example for index in self.example]


@dataclass(frozen=True)
class DevScores:
    """The scores of one labelled example, before any threshold."""

    example: LabelledExample
    sentence_support: npt.NDArray[np.floating]  # in [0, 1] [S]
    token_offsets: npt.NDArray[np.integer]  # characters of the response tokens [R, 2]
    token_support: npt.NDArray[np.floating]  # in [0, 1] [R]
    token_sentence: npt.NDArray[np.integer]  # sentence of each token [R]

    @classmethod
    def of(
        cls,
        example: LabelledExample,
        tokens: TokenizedExample,
        sentences: npt.NDArray[np.floating],
        support: npt.NDArray[np.floating],
    ) -> Self:
        """Return an example with its sentence and token support, which may be padded."""
        response, count = tokens.response, len(tokens.response_sentence_spans)
        arrays = sentences[:count], response.offsets, support[: len(response)]
        return cls(example, *arrays, tokens.response_sentence)


def marked_words(words: ScoredItems, sentence: float, span: float) -> npt.NDArray[np.bool_]:
    """Return which words a verdict marks: the weak ones of unsupported sentences, or all."""
    count = int(words.sentence.max(initial=-1)) + 1
    weakest = np.ones(count)
    np.minimum.at(weakest, words.sentence, words.support)
    weak = (words.support < span) | (weakest[words.sentence] >= span)
    return weak & (words.deciding_support < sentence)


def threshold_columns(scores: Iterable[DevScores]) -> dict[str, ScoredItems]:
    """Return the items with known labels of each threshold: responses and words.

    Spans are snapped to whole words, so the support of a word is the least of its tokens and its
    size its characters. Spaces inside a flagged run, dropped runs of punctuation and scripts
    without spaces are not considered.
    """
    responses: list[_Part] = []
    words: list[_Part] = []
    sentences = 0
    for index, score in enumerate(scores):
        labels = score.example.labels
        if labels.adherent is not None and len(score.token_support):
            weakest = score.sentence_support[np.unique(score.token_sentence)].min()
            support, wrong = np.array([weakest], float), np.array([not labels.adherent], float)
            responses.append((index, (support, wrong, np.ones(1), np.zeros(1), support)))
        if labels.unsupported is not None:
            words.append((index, _words(score, labels.unsupported, sentences)))
            sentences += len(score.sentence_support)
    return {"sentence": _column(responses), "span": _column(words)}


_Part = tuple[int, tuple[FloatArray, ...]]  # index of the example; fields of its items


def _column(parts: Sequence[_Part]) -> ScoredItems:
    empty = np.zeros(0)
    columns = [np.concatenate(part) for part in zip(*(values for _, values in parts), strict=True)]
    support, unsupported, size, sentence, of_sentence = columns or [empty] * 5
    counts = [len(values[0]) for _, values in parts]
    example = np.repeat(np.array([index for index, _ in parts], dtype=np.int64), counts)
    sentence = sentence.astype(np.int64)
    return ScoredItems(support, unsupported, size, example, len(parts), sentence, of_sentence)


def _words(score: DevScores, unsupported: Sequence[Span], sentences: int) -> tuple[FloatArray, ...]:
    """Return support, unsupported and all characters, sentence and its support of each word."""
    response = score.example.example.response
    words = np.array([match.span() for match in _WORD.finditer(response)], dtype=np.int64)
    words = words.reshape(-1, 2)
    support, sentence = np.ones(len(words)), np.full(len(words), -1)
    # A token belongs to the last word that begins before the token ends: some tokenizers let a
    # token start at the space before the word.
    home = np.searchsorted(words[:, 0], score.token_offsets[:, 1], side="left") - 1
    real = home >= 0
    np.minimum.at(support, home[real], np.asarray(score.token_support, dtype=float)[real])
    sentence[home[real]] = score.token_sentence[real]
    read = sentence >= 0
    of_sentence = np.ones(len(words))
    of_sentence[read] = score.sentence_support[sentence[read]]
    totals = np.concatenate([[0], np.cumsum(marked_characters(len(response), unsupported))])
    gold = (totals[words[:, 1]] - totals[words[:, 0]]).astype(float)
    size = (words[:, 1] - words[:, 0]).astype(float)
    # A word without a token has a sentence support of 1, so no threshold marks it.
    return support, gold, size, np.where(read, sentence, 0) + float(sentences), of_sentence
