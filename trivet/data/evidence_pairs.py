"""Pairs of a response sentence and a context sentence that one window shows both of.

Letters as in ``windows``; X is the number of context sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trivet.data.tokenization import FloatArray, IntArray
from trivet.data.windows import Array, Layout


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


class EvidencePairs(NamedTuple):
    """The pairs of all windows of a batch, with their labels; no pair is in an evidence window."""

    response_pool: Array  # as in ``WindowSentences``; zero rows are padding, [N, S, L]
    context_pool: Array  # likewise, [N, X, L]
    # 1 where the context sentence supports the response sentence, else 0, [N, S, X]
    supports: Array
    share: Array  # share of the pair in its example, 0 where its label is unknown, [N, S, X]
    example: Array  # example of each window, [N]


def collate_pairs(
    layouts: Sequence[Layout], labels: Sequence[IntArray], width: int
) -> EvidencePairs:
    """Stack the pairs of some examples, in windows of ``width`` positions.

    Labels are 1, 0 or -1 (unknown) for each pair of an example. *Shape of each:* [S, X].
    """
    rows = [
        (b, None if layout.row_is_evidence[row] else window_sentences(layout, row, width))
        for b, layout in enumerate(layouts)
        for row in range(len(layout.rows))
    ]
    shown = [one for _, one in rows if one is not None]
    answered, read = (max(1, *(len(one[part]) for one in shown)) for part in (0, 2))
    pairs = EvidencePairs(
        response_pool=np.zeros((len(rows), answered, width), dtype=np.float32),
        context_pool=np.zeros((len(rows), read, width), dtype=np.float32),
        supports=np.zeros((len(rows), answered, read), dtype=np.float32),
        share=np.zeros((len(rows), answered, read), dtype=np.float32),
        example=np.array([b for b, _ in rows]),
    )
    for n, (b, one) in enumerate(rows):
        if one is not None:
            s, x = len(one.response), len(one.context)
            own = labels[b][np.ix_(one.response, one.context)]
            pairs.response_pool[n, :s] = one.response_pool
            pairs.context_pool[n, :x] = one.context_pool
            pairs.supports[n, :s, :x] = own == 1
            pairs.share[n, :s, :x] = own >= 0
    totals = np.bincount(pairs.example, pairs.share.sum(axis=(1, 2)), minlength=len(layouts))
    pairs.share[:] /= np.maximum(totals, 1)[pairs.example, None, None]
    return pairs
