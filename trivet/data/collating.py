"""Batches of windows: the rows of any examples, padded and stacked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trivet.data.sentence_features import FEATURES
from trivet.data.windows import Layout, Windows


def collate(layouts: Sequence[Layout], pad: int) -> Windows:
    """Pad and stack the windows of any examples. Every dimension is at least 1."""
    widths = [len(row) for layout in layouts for row in layout.rows]
    height, width = len(widths), max(widths)
    examples = len(layouts)
    tokens = max(1, *(len(layout.response_row) for layout in layouts))
    copies = max(1, *(layout.response_row.shape[1] for layout in layouts))
    contexts = max(1, *(len(layout.context_row) for layout in layouts))
    sentences = max(1, *(layout.sentences for layout in layouts))
    windows = Windows(
        input_ids=np.full((height, width), pad, dtype=np.int64),
        attention_mask=np.zeros((height, width), dtype=np.int64),
        segment_ids=np.zeros((height, width), dtype=np.int64),
        response_at=np.full((examples, tokens, copies), -1, dtype=np.int64),
        context_at=np.full((examples, contexts), -1, dtype=np.int64),
        context_weight=np.zeros((examples, contexts), dtype=np.float32),
        question_overlap=np.zeros((examples, contexts), dtype=np.float32),
        response_overlap=np.zeros((examples, contexts), dtype=np.float32),
        sentence_pool=np.zeros((examples, sentences, tokens), dtype=np.float32),
        sentence_features=np.zeros((examples, sentences, len(FEATURES)), dtype=np.float32),
    )
    first = 0
    for b, layout in enumerate(layouts):
        for n, (row, segment) in enumerate(zip(layout.rows, layout.segments, strict=True), first):
            windows.input_ids[n, : len(row)] = row
            windows.attention_mask[n, : len(row)] = 1
            windows.segment_ids[n, : len(row)] = segment
        length, shown = layout.response_row.shape
        windows.response_at[b, :length, :shown] = np.where(
            layout.response_row < 0,
            -1,
            (first + layout.response_row) * width + layout.response_column,
        )
        held = len(layout.context_row)
        windows.context_at[b, :held] = (first + layout.context_row) * width + layout.context_column
        windows.context_weight[b, :held] = layout.context_weight
        windows.question_overlap[b, :held] = layout.question_overlap
        windows.response_overlap[b, :held] = layout.response_overlap
        if length:
            windows.sentence_pool[b, : layout.sentences, :length] = layout.sentence_pool()
            windows.sentence_features[b, : layout.sentences] = layout.sentence_features
        first += len(layout.rows)
    return windows
