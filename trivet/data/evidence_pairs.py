"""Sentences of response and contexts that one window shows, for the pairs of them.

Letters as in ``windows``; X is the number of context sentences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trivet.data.tokenization import FloatArray, IntArray
from trivet.data.windows import Layout


class WindowSentences(NamedTuple):
    """Sentences that one window shows, or a part of, and means over their tokens in it."""

    response: IntArray  # numbers of the response sentences, rising, [S]
    response_pool: FloatArray  # row s averages the tokens of ``response[s]``, [S, L]
    context: IntArray  # numbers of the context sentences, rising, [X]
    context_pool: FloatArray  # row x averages the tokens of ``context[x]``, [X, L]


def window_sentences(
    layout: Layout, row: int, width: int, response_sentence: IntArray | None = None
) -> WindowSentences:
    """Return the sentences that a row of a layout shows; ``width`` is L, at least its length.

    ``response_sentence`` has the sentence of each response token, if not as in the layout.
    """
    if response_sentence is None:
        response_sentence = layout.response_sentence
    token, copy = np.nonzero(layout.response_row == row)
    answered, response_pool = _means(
        response_sentence[token], layout.response_column[token, copy], width
    )
    read, context_pool = _means(
        layout.context_sentence[layout.row_context[row]], layout.row_columns[row], width
    )
    return WindowSentences(answered, response_pool, read, context_pool)


def _means(sentence: IntArray, columns: IntArray, width: int) -> tuple[IntArray, FloatArray]:
    """Return the distinct sentences of some tokens, and the means over their columns."""
    numbers, at, counts = np.unique(sentence, return_inverse=True, return_counts=True)
    pool = np.zeros((len(numbers), width), dtype=np.float32)
    pool[at, columns] = 1.0 / counts[at]
    return numbers, pool
