"""Text of the evidence windows: the context sentences that share most words with the response.

The evidence of one response sentence may be spread over several windows, none of which shows all
of it. An evidence window gathers it, wherever in the contexts it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from trivet.data.tokenization import IntArray, TokenizedExample


class Evidence(NamedTuple):
    """Contents of one evidence window.

    Attributes:
        chunk: First and one-past-last response token.
        shown: Numbers of the context tokens, rising. *Shape:* [T], T > 0.
        columns: Columns of these tokens in the window. *Shape:* [T].
    """

    chunk: tuple[int, int]
    shown: IntArray
    columns: IntArray


def choose_evidence(
    tokenized: TokenizedExample,
    sources: IntArray,
    chunks: Sequence[tuple[int, int]],
    room: int,
) -> Iterator[Evidence]:
    """Yield an evidence window for each chunk of the response.

    It shows the best source of every sentence of the chunk, then the second best, and so on; a
    sentence that does not fit is left out. If not even the first one fits, it is cut. The context
    keeps its order, with a separator between passages and wherever text is left out.

    Args:
        tokenized: An example with contexts and a response.
        sources: Context sentences for each response sentence, best first. *Shape:* [S, n].
        chunks: First and one-past-last response token of each chunk.
        room: Number of positions for context, separators in it, and chunk.
    """
    lengths = np.bincount(tokenized.context_sentence)
    for start, stop in chunks:
        most = room - (stop - start)
        first, last = tokenized.response_sentence[[start, stop - 1]]
        ranked = list(dict.fromkeys(sources[first : last + 1].T.flat))
        chosen, free = [], most + 1  # the first sentence needs no separator
        for sentence in ranked:
            needed = int(lengths[sentence]) + 1
            if needed <= free:
                chosen.append(sentence)
                free -= needed
        shown = np.flatnonzero(np.isin(tokenized.context_sentence, chosen or ranked[:1]))[:most]
        gaps = (np.diff(shown) != 1) | (np.diff(tokenized.context_index[shown]) != 0)
        columns = np.arange(1, len(shown) + 1)
        columns[1:] += np.cumsum(gaps)
        yield Evidence((start, stop), shown, columns)
