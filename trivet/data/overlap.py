"""How many of its words a context's sentence shares with the question, or with the response.

A small encoder hardly compares words by itself, and never sees the sentences of another window.
Both can be counted from the ids before anything is cut: how much of a sentence is found again, and
whether that is much beside the example's other sentences. Word overlap is an old and hard baseline
for picking sentences (Yih et al., ACL 2013, P13-1171).

Letters: C context tokens.
"""

from __future__ import annotations

import numpy as np

from trivet.data.reading import ReadExample
from trivet.data.tokens import FloatArray, IntArray

# Vocabularies list their pieces about in the order of how common they are, the common ones first
# (WordPiece's after unused entries and single characters, of which BERT has 2,000), so an id says
# how rare its piece is; by Zipf's law its logarithm does. Below about this id it says nothing.
_COMMON = 1000


def context_overlap(read: ReadExample, asked: IntArray) -> FloatArray:
    """Return for each context token how far its sentence overlaps with other text.

    The mean of two shares, both of rarity and counting every word of a sentence once: of the
    sentence's words, those that the other text holds; and of the words that the sentence shares
    with most of them shares, those that this one does.

    Args:
        read: The example.
        asked: Token ids of the other text, its question or its response.

    Returns:
        In [0, 1], the same for all tokens of a sentence; 0 where nothing is shared. *Shape:* [C].
    """
    if not len(read.context):
        return np.zeros(0, dtype=np.float32)
    # One number a word: numpy sorts rows of two five times slower.
    width = int(read.context.ids.max()) + 1
    words = np.unique(read.context_sentence * width + read.context.ids)
    sentence, ids = np.divmod(words, width)
    rarity = np.log1p(ids / _COMMON)
    count = int(read.context_sentence.max()) + 1
    held = np.bincount(sentence, rarity, minlength=count)
    shared = np.bincount(sentence, rarity * np.isin(ids, asked), minlength=count)
    share = np.divide(shared, held, out=np.zeros(count), where=held > 0)
    rank = shared / max(shared.max(), np.finfo(np.float64).tiny)
    overlap: FloatArray = ((share + rank) / 2).astype(np.float32)[read.context_sentence]
    return overlap
