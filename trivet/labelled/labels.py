"""Training targets: labels of an example aligned with its tokens and windows.

Does not import torch. A value of -1 always means unknown. Support has three kinds of supervision,
depending on what is known: with known evidence each window has its own class; with only the
token's label the joined probability is trained; with only the verdict the joined faithfulness is.
No token has two, except supported tokens with a copy in an evidence window: class and label.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trivet.data.evidence_pairs import window_sentences
from trivet.data.spans import mark_tokens
from trivet.data.tokenization import BoolArray, IntArray, TokenizedExample
from trivet.data.windows import Array, Layout
from trivet.records import ContextSpan, LabelledExample, Span

UNKNOWN = -1
# Classes of natural language inference, in the order of the support head's outputs.
ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2


class Targets(NamedTuple):
    """Targets of one example, or of a batch with a leading dimension B."""

    window_class: Array  # class of response token r in the k-th window that shows it, [R, K]
    token_supported: Array  # 1 or 0 for tokens whose evidence is unknown, [R]
    adherent: Array  # 1 if the whole response is supported, else 0, []
    relevant: Array  # 1 or 0, [C]
    utilized: Array  # 1 or 0, [C]
    weight: Array  # weight of the example, []
    # cosine of the token's sentence and the question by a retriever, NaN where unknown, [C] float32
    cosine: Array


def align_labels(
    labelled: LabelledExample,
    tokenized: TokenizedExample,
    layout: Layout,
    use_evidence: bool = True,
) -> Targets:
    """Align an example's labels with its tokens and windows.

    After Luna (arXiv 2406.00975, 3.3): a supported sentence is entailed in the windows that show
    all of its evidence and neutral in the others (in Luna, some of it is enough); a sentence with
    general support is entailed everywhere; an unsupported one is contradicted everywhere. If every
    window shows only a part of the evidence, the token's own label remains. A supported
    token with a copy in an evidence window keeps it too, to train the joining by the
    mean; such a copy is never neutral. Without ``use_evidence``, no window has a class.
    """
    labels = labelled.labels
    window_class = np.full(layout.response_row.shape, UNKNOWN, dtype=np.int64)
    token_supported = np.full(len(tokenized.response), UNKNOWN, dtype=np.int64)
    if labels.unsupported is not None:
        unsupported = mark_tokens(tokenized.response.offsets, labels.unsupported)
        token_supported[:] = np.where(unsupported, 0, 1)
        unclear = mark_tokens(tokenized.response.offsets, labels.unclear)
        token_supported[unclear & ~unsupported] = UNKNOWN
        if labels.evidence is not None and use_evidence:
            for evidence in labels.evidence:
                offsets = tokenized.response.offsets
                span_tokens = mark_tokens(offsets, [evidence.response]) & ~unsupported
                shown = _rows_that_show(evidence.contexts, tokenized, layout)
                # With two pieces of evidence for one token, a window needs to show only one.
                entailed = shown[layout.response_row] & (layout.response_row >= 0)
                entailed |= window_class == ENTAILMENT
                span_tokens &= entailed.any(axis=1)
                window_class[span_tokens] = np.where(entailed, ENTAILMENT, NEUTRAL)[span_tokens]
            window_class[unsupported] = CONTRADICTION
            window_class[layout.response_row < 0] = UNKNOWN
            # The mean would pull a supported token down if its evidence window were neutral.
            gathered = layout.row_is_evidence[layout.response_row] & (layout.response_row >= 0)
            window_class[gathered & (window_class == NEUTRAL)] = UNKNOWN
            decided = (window_class != UNKNOWN).any(axis=1)
            token_supported[decided & (unsupported | ~gathered.any(axis=1))] = UNKNOWN
    adherent = labels.adherent
    if adherent is None and labels.unsupported is not None:
        adherent = False if labels.unsupported else None if labels.unclear else True
    return Targets(
        window_class=window_class,
        token_supported=token_supported,
        adherent=np.asarray(UNKNOWN if adherent is None else int(adherent)),
        relevant=_mark_contexts(labels.relevant, tokenized),
        utilized=_mark_contexts(labels.utilized, tokenized),
        weight=np.asarray(labelled.weight, dtype=np.float32),
        cosine=np.full(len(tokenized.context), np.nan, dtype=np.float32),
    )


def evidence_labels(labelled: LabelledExample, tokenized: TokenizedExample) -> IntArray:
    """Return whether each context sentence supports each response sentence. *Shape:* [S, X].

    1 where it is labelled evidence of the response sentence, 0 where other sentences are, and
    unknown (-1) for all pairs of a response sentence without named evidence.
    """
    shape = (len(tokenized.response_sentence_spans), len(tokenized.context_sentence_spans))
    pair_labels = np.full(shape, UNKNOWN, dtype=np.int64)
    for evidence in labelled.labels.evidence or ():
        marks = _mark_contexts(evidence.contexts, tokenized)
        sources = np.unique(tokenized.context_sentence[marks == 1])
        inside = mark_tokens(tokenized.response.offsets, [evidence.response])
        for number in np.unique(tokenized.response_sentence[inside]) if len(sources) else ():
            pair_labels[number] = np.maximum(pair_labels[number], 0)
            pair_labels[number, sources] = 1
    return pair_labels


def collate_labels(targets: Sequence[Targets], shape: tuple[int, int, int, int]) -> Targets:
    """Pad with unknown values to the (B, R, K, C) of the windows, and stack."""
    examples, tokens, copies, contexts = shape
    batch = Targets(
        window_class=np.full((examples, tokens, copies), UNKNOWN, dtype=np.int64),
        token_supported=np.full((examples, tokens), UNKNOWN, dtype=np.int64),
        adherent=np.asarray([target.adherent for target in targets], dtype=np.int64),
        relevant=np.full((examples, contexts), UNKNOWN, dtype=np.int64),
        utilized=np.full((examples, contexts), UNKNOWN, dtype=np.int64),
        weight=np.asarray([target.weight for target in targets], dtype=np.float32),
        cosine=np.full((examples, contexts), np.nan, dtype=np.float32),
    )
    for b, target in enumerate(targets):
        length, shown = target.window_class.shape
        batch.window_class[b, :length, :shown] = target.window_class
        batch.token_supported[b, :length] = target.token_supported
        batch.relevant[b, : len(target.relevant)] = target.relevant
        batch.utilized[b, : len(target.utilized)] = target.utilized
        batch.cosine[b, : len(target.cosine)] = target.cosine
    return batch


def _rows_that_show(
    spans: Sequence[ContextSpan], tokenized: TokenizedExample, layout: Layout
) -> BoolArray:
    """Tell for every row whether it shows all of the evidence; all do if none is named.

    None does if no token is in the evidence.
    """
    if not spans:
        return np.ones(len(layout.rows), dtype=np.bool_)
    marks = _mark_contexts(spans, tokenized)
    total = max(1, int(marks.sum()))
    return np.array([marks[shown].sum() == total for shown in layout.row_context])


def _mark_contexts(spans: Sequence[ContextSpan] | None, tokenized: TokenizedExample) -> IntArray:
    """Mark the context tokens in any span with 1, others with 0; all unknown without spans."""
    marks = np.full(len(tokenized.context), UNKNOWN if spans is None else 0, dtype=np.int64)
    read: dict[int, list[Span]] = defaultdict(list)  # by the context that is read for theirs
    for span in spans or ():
        read[tokenized.first_copy[span.context]].append(Span(span.start, span.end))
    for number, inside in read.items():
        in_context = tokenized.context_index == number
        marks[in_context] = mark_tokens(tokenized.context.offsets[in_context], inside)
    return marks


class EvidencePairs(NamedTuple):
    """The pairs of all windows of a batch, with their labels; no pair is in an evidence window."""

    # as in ``data.evidence_pairs.WindowSentences``; zero rows are padding, [N, S, L]
    response_pool: Array
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
    shown = [sentences for _, sentences in rows if sentences is not None]
    answered, read = (max(1, *(len(sentences[part]) for sentences in shown)) for part in (0, 2))
    pairs = EvidencePairs(
        response_pool=np.zeros((len(rows), answered, width), dtype=np.float32),
        context_pool=np.zeros((len(rows), read, width), dtype=np.float32),
        supports=np.zeros((len(rows), answered, read), dtype=np.float32),
        share=np.zeros((len(rows), answered, read), dtype=np.float32),
        example=np.array([b for b, _ in rows]),
    )
    for n, (b, sentences) in enumerate(rows):
        if sentences is not None:
            s, x = len(sentences.response), len(sentences.context)
            pair_labels = labels[b][np.ix_(sentences.response, sentences.context)]
            pairs.response_pool[n, :s] = sentences.response_pool
            pairs.context_pool[n, :x] = sentences.context_pool
            pairs.supports[n, :s, :x] = pair_labels == 1
            pairs.share[n, :s, :x] = pair_labels >= 0
    totals = np.bincount(pairs.example, pairs.share.sum(axis=(1, 2)), minlength=len(layouts))
    pairs.share[:] /= np.maximum(totals, 1)[pairs.example, None, None]
    return pairs
