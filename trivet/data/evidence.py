"""Text of the evidence windows: the context sentences that share most words with the response.

The evidence of one response sentence may be spread over several windows, none of which shows all
of it. An evidence window gathers it, wherever in the contexts it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trivet.data.tokenization import IntArray, Segment, TokenizedExample


class EvidenceWindow(NamedTuple):
    """Contents of one evidence window."""

    chunk: tuple[int, int]  # first and one-past-last response token
    shown: IntArray  # numbers of the context tokens, rising, [T], T > 0


def choose_evidence(
    tokenized: TokenizedExample,
    sources: IntArray,
    chunks: Sequence[tuple[int, int]],
    room: int,
    gap: int = 1,
) -> Iterator[EvidenceWindow]:
    """Yield an evidence window for each chunk of the response.

    It shows the best source of every sentence of the chunk, then the second best, and so on; a
    sentence that does not fit is left out. If not even the first one fits, it is truncated. The
    context keeps its order, with a separator between passages and wherever text is left out.

    Args:
        tokenized: An example with contexts and a response.
        sources: Context sentences for each response sentence, best first. *Shape:* [S, n].
        chunks: First and one-past-last response token of each chunk.
        room: Number of positions for context, separators in it, and chunk.
        gap: Number of positions of a separator.
    """
    lengths = np.bincount(tokenized.context_sentence)
    for start, stop in chunks:
        most = room - (stop - start)
        first, last = tokenized.response_sentence[[start, stop - 1]]
        ranked = sources[first : last + 1].T.ravel()
        yield EvidenceWindow((start, stop), _fitting(tokenized, lengths, ranked, most, gap))


def keep_evidence(
    tokenized: TokenizedExample, ranked: IntArray, most: int, gap: int = 1
) -> tuple[TokenizedExample, IntArray]:
    """Return an example with only some context sentences, as an evidence window shows them.

    Keeps those of the sentences ``ranked`` [n], n > 0, that fit in ``most`` tokens and separators.
    Every run of text counts as a passage. The second array has the numbers that the
    example's context tokens had. *Shape:* [T].
    """
    lengths = np.bincount(tokenized.context_sentence)
    shown = _fitting(tokenized, lengths, ranked, most, gap)
    kept, sentence = np.unique(tokenized.context_sentence[shown], return_inverse=True)
    context = Segment(tokenized.context.ids[shown], tokenized.context.offsets[shown])
    evidence = replace(
        tokenized,
        context=context,
        context_index=runs_of(tokenized, shown),
        context_sentence=sentence,
        context_sentence_spans=tuple(tokenized.context_sentence_spans[n] for n in kept),
    )
    return evidence, shown


def _fitting(
    tokenized: TokenizedExample, lengths: IntArray, ranked: IntArray, most: int, gap: int
) -> IntArray:
    """Return the tokens of the ranked sentences that fit, in their order in the contexts."""
    chosen, free = [], most + gap  # the first sentence needs no separator
    for sentence in dict.fromkeys(ranked.tolist()):
        needed = int(lengths[sentence]) + gap
        if needed <= free:
            chosen.append(sentence)
            free -= needed
    marks = np.isin(tokenized.context_sentence, chosen or ranked[:1])
    return np.flatnonzero(marks)[: max(1, most)]


def runs_of(tokenized: TokenizedExample, shown: IntArray) -> IntArray:
    """Number the runs of context tokens between passage ends and omissions, from 0."""
    gaps = (np.diff(shown) != 1) | (np.diff(tokenized.context_index[shown]) != 0)
    runs: IntArray = np.cumsum(np.concatenate([[0], gaps]))[: len(shown)]
    return runs
