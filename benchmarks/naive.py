"""The host's work as it is written first: every window tokenized anew, joined in Python's loops.

What the package does instead is measured against this.
"""

from __future__ import annotations

import numpy as np

from trivet.data.segment_tokenizer import FloatArray, SegmentTokenizer
from trivet.data.sentences import split_sentences
from trivet.data.tokenization import TokenizedExample
from trivet.data.windows import Layout
from trivet.records import RagExample


def read_window_by_window(
    example: RagExample, read: TokenizedExample, layout: Layout, tokenizer: SegmentTokenizer
) -> list[list[int]]:
    """Tokenize each window's slice, the question and the response, window by window.

    Sentences are found once, as in the package: its tokenizing includes that, so this does too.

    Args:
        example: The texts.
        read: Where tokens stand in them; only used to cut the same slices.
        layout: Which slice each window shows.
        tokenizer: As the package uses it.
    """
    special = tokenizer.special
    for text in (*example.contexts, example.response):
        split_sentences(text)
    rows = []
    for start, stop in layout.row_context.tolist():
        row = [special.cls]
        for number in np.unique(read.context_index[start:stop]).tolist():
            held = np.flatnonzero(read.context_index[start:stop] == number) + start
            first = int(read.context.offsets[held[0], 0])
            last = int(read.context.offsets[held[-1], 1])
            row += [*_ids(example.contexts[number][first:last], tokenizer), special.sep]
        for text in (example.question, example.response):
            row += [*_ids(text, tokenizer), special.sep]
        rows.append(row)
    return rows


def join_in_loops(layout: Layout, probs: FloatArray) -> tuple[float, float, float]:
    """Join the windows of one example token by token.

    Args:
        layout: Where each token stands.
        probs: Of support, relevance and utilization. *Shape:* [3, N, L].

    Returns:
        Faithfulness, by the weakest token; relevance; utilization.
    """
    weakest = 1.0
    for rows, columns in zip(layout.response_row, layout.response_column, strict=True):
        best = 0.0
        for row, column in zip(rows, columns, strict=True):
            if row >= 0:
                best = max(best, float(probs[0, row, column]))
        weakest = min(weakest, best)
    relevance = utilization = 0.0
    for row, column, weight in zip(
        layout.context_row, layout.context_column, layout.context_weight, strict=True
    ):
        relevance += float(weight * probs[1, row, column])
        utilization += float(weight * probs[2, row, column])
    return weakest, relevance, utilization


def _ids(text: str, tokenizer: SegmentTokenizer) -> list[int]:
    (segment,) = tokenizer.encode([text])
    ids: list[int] = segment.ids.tolist()
    return ids
