"""Rows made long: strangers' passages put among their own, for measuring what length does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trivet.data.labelled.augmentation.altered_contexts import insert_contexts
from trivet.data.labelled.augmentation.augment import akin
from trivet.records import DataError, LabelledExample, Span


def lengthen(rows: Sequence[LabelledExample], passages: int, seed: int) -> list[LabelledExample]:
    """Put the passages of strangers among those of each row; what is known of it stays true.

    The same row, seed and number always give the same text, so that models can be compared on it.

    Args:
        rows: What is made long; the passages come from the other ones.
        passages: How many each row gets; 0 changes nothing.
        seed: Of the draw.

    Raises:
        DataError: The strangers of a row do not have so many passages.
    """
    if not passages:
        return list(rows)
    return [
        _lengthened(row, number, rows, passages, np.random.default_rng((seed, number)))
        for number, row in enumerate(rows)
    ]


def _lengthened(
    row: LabelledExample,
    number: int,
    rows: Sequence[LabelledExample],
    passages: int,
    random: np.random.Generator,
) -> LabelledExample:
    texts: list[str] = []
    sentences: list[tuple[Span, ...]] | None = []
    for place in random.permutation(len(rows)).tolist():
        other = rows[place]
        if akin(row, other):
            continue
        brought = other.example.context_sentences
        for index, text in enumerate(other.example.contexts):
            if len(texts) < passages and text not in texts:
                texts.append(text)
                if sentences is not None:
                    sentences = None if brought is None else [*sentences, brought[index]]
        if len(texts) == passages:
            break
    else:
        raise DataError(
            f"row {number} ({row.group}): its strangers have {len(texts)} passages, not "
            f"{passages}; ask for fewer foreign passages, or measure on more rows"
        )
    places = random.integers(0, len(row.example.contexts) + 1, passages)
    return insert_contexts(row, texts, places.tolist(), sentences)
