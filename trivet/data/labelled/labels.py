"""Labels of an example laid over its tokens: what each head is trained towards.

Torch-free. A value of -1 always means unknown. Three kinds of supervision for support, told apart
by what is known and never mixed on one token: where the evidence is known, each window has its own
class; where only the token is known, the joined probability is trained; where only the verdict is
known, the joined faithfulness is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from trivet.data.segment_tokenizer import BoolArray, IntArray
from trivet.data.spans import mark_tokens
from trivet.data.tokenization import TokenizedExample
from trivet.data.windows import Array, Layout
from trivet.records import ContextSpan, LabelledExample, Span

UNKNOWN = -1
# Classes of natural language inference; the support head's outputs stand in this order.
ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2


class Targets(NamedTuple):
    """What is known of one example's tokens, or of a batch's.

    Attributes:
        window_class: Class of response token r in the k-th window that shows it. *Shape:* [R, K].
        token_supported: 1, 0, for tokens whose evidence is not known. *Shape:* [R].
        adherent: 1, 0: the whole response is supported. *Shape:* [].
        relevant: 1, 0. *Shape:* [C].
        utilized: 1, 0. *Shape:* [C].
        weight: How much the example counts. *Shape:* [].
    """

    window_class: Array
    token_supported: Array
    adherent: Array
    relevant: Array
    utilized: Array
    weight: Array


def lay_labels(
    labelled: LabelledExample, read: TokenizedExample, layout: Layout, use_evidence: bool = True
) -> Targets:
    """Lay an example's labels over its tokens and windows.

    Luna (arXiv 2406.00975, 3.3): a supported sentence is entailed in the windows that show some of
    its evidence and neutral in the others; what is supported by no passage in particular is
    entailed everywhere; what is unsupported is contradicted everywhere.

    Args:
        labelled: The texts and what is known of them.
        read: The same example, tokenized.
        layout: The same example, cut.
        use_evidence: Whether to use per-window classes where the evidence is known.
    """
    labels = labelled.labels
    window_class = np.full(layout.response_row.shape, UNKNOWN, dtype=np.int64)
    token_supported = np.full(len(read.response), UNKNOWN, dtype=np.int64)
    if labels.unsupported is not None:
        unsupported = mark_tokens(read.response.offsets, labels.unsupported)
        token_supported[:] = np.where(unsupported, 0, 1)
        unclear = mark_tokens(read.response.offsets, labels.unclear)
        token_supported[unclear & ~unsupported] = UNKNOWN
        if labels.evidence is not None and use_evidence:
            for evidence in labels.evidence:
                stretch = mark_tokens(read.response.offsets, [evidence.response]) & ~unsupported
                shown = _rows_that_show(evidence.contexts, read, layout)
                if not shown.any():
                    continue  # evidence in which no token stands: where it stands is not known
                here = np.where(shown[layout.response_row], ENTAILMENT, NEUTRAL)
                # Two pieces of evidence for one token: a window needs to show either.
                seen = window_class[stretch]
                window_class[stretch] = np.where(seen == ENTAILMENT, ENTAILMENT, here[stretch])
            window_class[unsupported] = CONTRADICTION
            window_class[layout.response_row < 0] = UNKNOWN
            token_supported[(window_class != UNKNOWN).any(axis=1)] = UNKNOWN
    adherent = labels.adherent
    if adherent is None and labels.unsupported is not None:
        adherent = False if labels.unsupported else None if labels.unclear else True
    return Targets(
        window_class=window_class,
        token_supported=token_supported,
        adherent=np.asarray(UNKNOWN if adherent is None else int(adherent)),
        relevant=_context_marks(labels.relevant, read),
        utilized=_context_marks(labels.utilized, read),
        weight=np.asarray(labelled.weight, dtype=np.float32),
    )


def collate_labels(targets: Sequence[Targets], shape: tuple[int, int, int, int]) -> Targets:
    """Pad and stack targets to the (B, R, K, C) of their windows; padding is unknown."""
    examples, tokens, copies, contexts = shape
    batch = Targets(
        window_class=np.full((examples, tokens, copies), UNKNOWN, dtype=np.int64),
        token_supported=np.full((examples, tokens), UNKNOWN, dtype=np.int64),
        adherent=np.asarray([target.adherent for target in targets], dtype=np.int64),
        relevant=np.full((examples, contexts), UNKNOWN, dtype=np.int64),
        utilized=np.full((examples, contexts), UNKNOWN, dtype=np.int64),
        weight=np.asarray([target.weight for target in targets], dtype=np.float32),
    )
    for b, target in enumerate(targets):
        length, shown = target.window_class.shape
        batch.window_class[b, :length, :shown] = target.window_class
        batch.token_supported[b, :length] = target.token_supported
        batch.relevant[b, : len(target.relevant)] = target.relevant
        batch.utilized[b, : len(target.utilized)] = target.utilized
    return batch


def _rows_that_show(
    spans: Iterable[ContextSpan], read: TokenizedExample, layout: Layout
) -> BoolArray:
    """Say of every row whether it shows a token of the evidence; all do where none is named."""
    spans = tuple(spans)
    if not spans:
        return np.ones(len(layout.rows), dtype=np.bool_)
    marked = np.concatenate([[0], np.cumsum(_mark_contexts(spans, read))])
    first, last = layout.row_context[:, 0], layout.row_context[:, 1]
    shows: BoolArray = marked[last] > marked[first]
    return shows


def _context_marks(spans: Sequence[ContextSpan] | None, read: TokenizedExample) -> IntArray:
    if spans is None:
        return np.full(len(read.context), UNKNOWN, dtype=np.int64)
    return _mark_contexts(spans, read).astype(np.int64)


def _mark_contexts(spans: Sequence[ContextSpan], read: TokenizedExample) -> BoolArray:
    marks = np.zeros(len(read.context), dtype=np.bool_)
    for number in {span.context for span in spans}:
        own = read.context_index == number
        marks[own] = mark_tokens(
            read.context.offsets[own],
            [Span(span.start, span.end) for span in spans if span.context == number],
        )
    return marks
