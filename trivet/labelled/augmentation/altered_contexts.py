"""Contexts dropped, inserted or reordered, with labels that stay true.

Deterministic; ``augment`` draws at random. A label that an alteration leaves undecided becomes
unknown, and an annotator's score is removed if its share changes: training then counts the
labelled spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from trivet.data.sentences import split_sentences
from trivet.data.spans import subtract_spans
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, Span


def drop_contexts(labelled: LabelledExample, keep: Sequence[int]) -> LabelledExample:
    """Leave out every context except those at the positions ``keep``, which stay in their order.

    A supported span that loses all its evidence becomes unsupported. If the evidence is unknown, a
    dropped context may have contained it: the support becomes unknown, unless the response is
    known to have used kept contexts alone. Evidence whose exact words occur in a kept context is
    moved there.
    """
    example, labels = labelled.example, labelled.labels
    kept = sorted(set(keep))
    if len(kept) == len(example.contexts):
        return labelled
    remaining: list[Evidence] = []
    lost: list[Span] = []
    for evidence in labels.evidence or ():
        kept_spans = _find_again(evidence.contexts, example.contexts, kept)
        if kept_spans or not evidence.contexts:
            remaining.append(Evidence(evidence.response, kept_spans))
        else:
            lost.append(evidence.response)
    shortened = _with_contexts(labelled, kept)
    left = replace(
        shortened.labels,
        evidence=None if labels.evidence is None else tuple(remaining),
        # The text that contradicted a span may be in a dropped context.
        contradicted=() if labels.known_conflicts() == () else None,
        relevance=None,
        utilization=None,
        completeness=None,
    )
    used, still = labels.utilized, left.utilized
    if not lost and used and still and len(still) == len(used):
        return replace(shortened, labels=left)

    supported = [evidence.response for evidence in remaining]
    unnamed = subtract_spans(example.response, [Span(0, len(example.response))], supported)
    left = after_loss(left, example.response, lost, supported, unnamed)
    if labels.unsupported is None or not (left.unsupported or supported):
        left = replace(left, unsupported=None, unclear=(), contradicted=None)
    return replace(shortened, labels=left)


def after_loss(
    labels: Labels, response: str, lost: Iterable[Span], kept: list[Span], doubtful: Iterable[Span]
) -> Labels:
    """Return the labels of a response after a loss of evidence.

    Spans ``lost`` become unsupported but for what is in those ``kept``; the rest of the
    ``doubtful`` is unclear.
    """
    known = labels.unsupported or ()
    newly = subtract_spans(response, lost, [*known, *kept])
    unsupported = tuple(sorted([*known, *newly], key=lambda span: (span.start, span.end)))
    unclear = subtract_spans(response, doubtful, unsupported)
    adherent = False if unsupported else None if unclear and labels.adherent else labels.adherent
    return replace(labels, unsupported=unsupported, unclear=unclear, adherent=adherent)


def permute_contexts(labelled: LabelledExample, order: Sequence[int]) -> LabelledExample:
    """Reorder the contexts: position i gets the context at ``order[i]``."""
    return _with_contexts(labelled, order)


def insert_contexts(
    labelled: LabelledExample,
    contexts: Sequence[str],
    places: Sequence[int],
    sentences: Sequence[tuple[Span, ...]] | None = None,
) -> LabelledExample:
    """Insert foreign contexts, in which nothing is relevant, utilized or evidence.

    Each gets the position of the context before which it is inserted, or the number of contexts;
    ``sentences`` are those of each passage, if its data has them.
    """
    example = labelled.example
    spans = None
    if example.context_sentences is not None or sentences is not None:
        known = example.context_sentences or [split_sentences(text) for text in example.contexts]
        foreign = sentences or [split_sentences(text) for text in contexts]
        spans = (*known, *foreign)
    longer = replace(
        labelled,
        example=replace(example, contexts=(*example.contexts, *contexts), context_sentences=spans),
        labels=replace(labelled.labels, relevance=None, utilization=None),
    )
    order = np.argsort([*(k + 0.5 for k in range(len(example.contexts))), *places], kind="stable")
    return _with_contexts(longer, order.tolist())


def _with_contexts(labelled: LabelledExample, order: Sequence[int]) -> LabelledExample:
    """Keep the contexts at ``order``, in that order, and their spans."""
    example, labels = labelled.example, labelled.labels
    index = {old: new for new, old in enumerate(order)}

    def move(spans: Sequence[ContextSpan] | None) -> tuple[ContextSpan, ...] | None:
        if spans is None:
            return None
        kept = [replace(span, context=index[s]) for span in spans if (s := span.context) in index]
        return tuple(sorted(kept, key=lambda span: (span.context, span.start, span.end)))

    evidence = None
    if labels.evidence is not None:
        evidence = tuple(Evidence(e.response, move(e.contexts) or ()) for e in labels.evidence)
    moved = move(labels.relevant), move(labels.utilized)
    sentences = example.context_sentences
    return replace(
        labelled,
        example=replace(
            example,
            contexts=tuple(example.contexts[old] for old in order),
            context_sentences=sentences and tuple(sentences[old] for old in order),
        ),
        labels=replace(labels, relevant=moved[0], utilized=moved[1], evidence=evidence),
    )


def _find_again(
    spans: Iterable[ContextSpan], contexts: Sequence[str], kept: Sequence[int]
) -> tuple[ContextSpan, ...]:
    """Return the spans that occur in the kept contexts, renumbered.

    A span of a dropped context is searched by its whole words: "12" is not in "2012".
    """
    renumbered: dict[ContextSpan, None] = {}
    for span in spans:
        for new, old in enumerate(kept):
            if old == span.context:
                renumbered[replace(span, context=new)] = None
                break
        else:
            words = contexts[span.context][span.start : span.end].strip()
            whole = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
            for new, old in enumerate(kept):
                match = whole.search(contexts[old]) if words else None
                if match:
                    renumbered[ContextSpan(new, *match.span())] = None
                    break
    return tuple(renumbered)
