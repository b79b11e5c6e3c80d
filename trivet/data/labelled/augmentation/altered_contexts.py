"""Contexts dropped, added or put into another order, and labels that are true of what is there.

Torch-free and without chance: who draws is ``augment``. What an alteration leaves undecided becomes
unknown, never a guess; an annotator's score whose share changes is given up, for training counts
the marks where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from trivet.data.labelled.augmentation.span_operations import stretches
from trivet.data.sentences import split_sentences
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, Span


def drop_contexts(labelled: LabelledExample, keep: Sequence[int]) -> LabelledExample:
    """Leave out every context but those at the positions ``keep``, which stay in their order.

    A supported stretch of which no evidence is left becomes unsupported. Where the evidence is not
    known, a dropped context may have held it: whether the stretch is supported becomes unknown,
    unless the response is known to have drawn on kept contexts alone. Evidence whose very words
    stand in a kept context too is found there.

    Raises:
        ValueError: ``keep`` names no context, or one that does not exist.
    """
    example, labels = labelled.example, labelled.labels
    kept = sorted(set(keep))
    if not kept or not 0 <= kept[0] <= kept[-1] < len(example.contexts):
        raise ValueError(f"keep {list(keep)} of {len(example.contexts)} contexts: at least one")
    if len(kept) == len(example.contexts):
        return labelled
    remaining: list[Evidence] = []
    lost: list[Span] = []
    for evidence in labels.evidence or ():
        found = _find_again(evidence.contexts, example.contexts, kept)
        if found or not evidence.contexts:
            remaining.append(Evidence(evidence.response, found))
        else:
            lost.append(evidence.response)
    shortened = _with_contexts(labelled, kept)
    utilized = shortened.labels.utilized
    if not lost and labels.utilized and utilized and len(utilized) == len(labels.utilized):
        evidence_left = None if labels.evidence is None else tuple(remaining)
        return replace(
            shortened,
            labels=_without_shares(replace(shortened.labels, evidence=evidence_left)),
        )

    response, known = example.response, labels.unsupported or ()
    supported = [evidence.response for evidence in remaining]
    unsupported = _in_order([*known, *stretches(response, lost, but=[*known, *supported])])
    unclear = stretches(response, [Span(0, len(response))], but=[*unsupported, *supported])
    adherent = labels.adherent
    if unsupported:
        adherent = False
    elif unclear and adherent:
        adherent = None
    tokens_known = labels.unsupported is not None and bool(unsupported or supported)
    return replace(
        shortened,
        labels=_without_shares(
            replace(
                shortened.labels,
                unsupported=unsupported if tokens_known else None,
                unclear=unclear if tokens_known else (),
                adherent=adherent,
                evidence=None if labels.evidence is None else tuple(remaining),
            )
        ),
    )


def permute_contexts(labelled: LabelledExample, order: Sequence[int]) -> LabelledExample:
    """Put the contexts into another order: position i gets what stood at ``order[i]``.

    Raises:
        ValueError: ``order`` is not a permutation of the contexts' positions.
    """
    count = len(labelled.example.contexts)
    if sorted(order) != list(range(count)):
        raise ValueError(f"order {list(order)} is not a permutation of {count} contexts")
    return _with_contexts(labelled, order)


def insert_contexts(
    labelled: LabelledExample,
    contexts: Sequence[str],
    places: Sequence[int],
    sentences: Sequence[tuple[Span, ...]] | None = None,
) -> LabelledExample:
    """Add foreign contexts, of which nothing is relevant, utilized or evidence.

    Args:
        labelled: What they are added to.
        contexts: The foreign passages.
        places: Before which of the example's contexts each goes, from 0 to their count (the end).
        sentences: The sentences of each passage, where its data brings them.

    Raises:
        ValueError: A place does not exist, or there is not one for each passage.
    """
    example = labelled.example
    count = len(example.contexts)
    if len(places) != len(contexts) or any(not 0 <= place <= count for place in places):
        raise ValueError(f"places {list(places)}: one of 0 to {count} for each passage")
    if not contexts:
        return labelled
    brought = None
    if example.context_sentences is not None or sentences is not None:
        own = example.context_sentences or [split_sentences(text) for text in example.contexts]
        foreign = sentences or [split_sentences(text) for text in contexts]
        brought = (*own, *foreign)
    longer = replace(
        labelled,
        example=replace(
            example, contexts=(*example.contexts, *contexts), context_sentences=brought
        ),
        labels=replace(labelled.labels, relevance=None, utilization=None),
    )
    stands = np.argsort([*(k + 0.5 for k in range(count)), *places], kind="stable")
    return _with_contexts(longer, stands.tolist())


def _with_contexts(labelled: LabelledExample, order: Sequence[int]) -> LabelledExample:
    """Keep the contexts at ``order``, in that order, and what is marked in them."""
    example, labels = labelled.example, labelled.labels
    place = {old: new for new, old in enumerate(order)}

    def move(spans: Sequence[ContextSpan] | None) -> tuple[ContextSpan, ...] | None:
        if spans is None:
            return None
        moved = [replace(span, context=place[s]) for span in spans if (s := span.context) in place]
        return tuple(sorted(moved, key=lambda span: (span.context, span.start, span.end)))

    evidence = None
    if labels.evidence is not None:
        evidence = tuple(Evidence(e.response, move(e.contexts) or ()) for e in labels.evidence)
    sentences = example.context_sentences
    return replace(
        labelled,
        example=replace(
            example,
            contexts=tuple(example.contexts[old] for old in order),
            context_sentences=sentences and tuple(sentences[old] for old in order),
        ),
        labels=replace(
            labels,
            relevant=move(labels.relevant),
            utilized=move(labels.utilized),
            evidence=evidence,
        ),
    )


def _find_again(
    spans: Iterable[ContextSpan], contexts: Sequence[str], kept: Sequence[int]
) -> tuple[ContextSpan, ...]:
    """Return the spans as they stand among the kept contexts; those that do not are left out.

    A span of a dropped context is looked for by its words, whole ones: "12" is not in "2012".
    """
    found: dict[ContextSpan, None] = {}
    for span in spans:
        for new, old in enumerate(kept):
            if old == span.context:
                found[replace(span, context=new)] = None
                break
        else:
            words = contexts[span.context][span.start : span.end].strip()
            whole = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
            for new, old in enumerate(kept):
                match = whole.search(contexts[old]) if words else None
                if match:
                    found[ContextSpan(new, *match.span())] = None
                    break
    return tuple(found)


def _without_shares(labels: Labels) -> Labels:
    return replace(labels, relevance=None, utilization=None, completeness=None)


def _in_order(spans: Iterable[Span]) -> tuple[Span, ...]:
    return tuple(sorted(spans, key=lambda span: (span.start, span.end)))
