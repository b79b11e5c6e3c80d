"""Sentences removed from the contexts, with labels that stay true. Deterministic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from trivet.data.sentences import split_sentences
from trivet.labelled.augmentation.altered_contexts import after_loss
from trivet.records import ContextSpan, Evidence, LabelledExample, Span

_WORD = re.compile(r"\w+")
NEAR_DUPLICATE = 0.6
"""Share of a sentence's words in another from which both may say the same."""


def context_sentences(labelled: LabelledExample) -> list[ContextSpan]:
    """Return all sentences of the contexts, in order."""
    example = labelled.example
    spans = example.context_sentences or [split_sentences(text) for text in example.contexts]
    return [
        ContextSpan(number, span.start, span.end)
        for number, inside in enumerate(spans)
        for span in inside
    ]


def distinct_words(text: str) -> frozenset[str]:
    """Return the distinct words of a text that have more than three characters or a digit."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(w for w in words if len(w) > 3 or any(c.isdigit() for c in w))


def share_held(part: frozenset[str], whole: frozenset[str]) -> float:
    """Return the share of the words of ``part`` that ``whole`` holds; 0 for no words."""
    return len(part & whole) / len(part) if part else 0.0


def remove_evidence(labelled: LabelledExample, response: Span) -> LabelledExample | None:
    """Remove what supports a span of the response: its evidence and sentences that repeat it.

    Returns ``None`` if the support of the span would be unclear: its evidence is unknown, or a
    sentence that stays has most of its words; or if no context would be left.
    """
    example = labelled.example
    named = [
        span
        for evidence in labelled.labels.evidence or ()
        if evidence.response.start < response.end and response.start < evidence.response.end
        for span in evidence.contexts
    ]
    if not named:
        return None
    sentences = context_sentences(labelled)
    removed = {sentence for sentence in sentences if _meet(sentence, named)}
    gone = [distinct_words(text_of(labelled, sentence)) for sentence in removed]
    claim = distinct_words(example.response[response.start : response.end])
    for sentence in sentences:
        held = distinct_words(text_of(labelled, sentence))
        if sentence in removed or not held:
            continue
        repeats = any(
            min(share_held(held, other), share_held(other, held)) >= NEAR_DUPLICATE
            for other in gone
        )
        if repeats:
            removed.add(sentence)
        elif share_held(claim, held) >= NEAR_DUPLICATE:
            return None
    return remove_sentences(labelled, sorted(removed, key=lambda s: (s.context, s.start)))


def remove_sentences(
    labelled: LabelledExample, removed: Sequence[ContextSpan], used: bool = True
) -> LabelledExample | None:
    """Remove sentences from the contexts; ``None`` if none would be left.

    A span of the response that loses all its evidence becomes unsupported, one that loses a part
    unclear. Without known evidence the support of the response becomes unknown, unless the
    response is known not to have ``used`` the sentences.
    """
    example, labels = labelled.example, labelled.labels
    pieces = [list[Span]() for _ in example.contexts]
    kept_sentences = [list[Span]() for _ in example.contexts]
    for sentence in context_sentences(labelled):
        if sentence not in removed:
            pieces[sentence.context].append(Span(sentence.start, sentence.end))
    contexts: list[str] = []
    number: dict[int, int] = {}
    starts: dict[ContextSpan, int] = {}  # of each sentence that stays, in its new context
    for old, spans in enumerate(pieces):
        text = ""
        for span in spans:
            text += " " if text else ""
            starts[ContextSpan(old, span.start, span.end)] = len(text)
            kept_sentences[old].append(Span(len(text), len(text) + span.end - span.start))
            text += example.contexts[old][span.start : span.end]
        if text:
            number[old] = len(contexts)
            contexts.append(text)
    if not contexts:
        return None

    def move(spans: Sequence[ContextSpan]) -> tuple[ContextSpan, ...]:
        moved = []
        for span in spans:
            for sentence, start in starts.items():
                if sentence.context == span.context:
                    first, last = max(span.start, sentence.start), min(span.end, sentence.end)
                    if first < last:
                        shift = start - sentence.start
                        moved.append(ContextSpan(number[span.context], first + shift, last + shift))
        return tuple(moved)

    remaining: list[Evidence] = []
    lost: list[Span] = []
    partly: list[Span] = []
    for evidence in labels.evidence or ():
        moved_spans = move(evidence.contexts)
        if evidence.contexts and not moved_spans:
            lost.append(evidence.response)
        elif any(_meet(span, removed) for span in evidence.contexts):
            partly.append(evidence.response)
        else:
            remaining.append(Evidence(evidence.response, moved_spans))
    shortened = replace(
        labelled,
        example=replace(
            example,
            contexts=tuple(contexts),
            context_sentences=example.context_sentences
            and tuple(tuple(spans) for spans in kept_sentences if spans),
        ),
        labels=replace(
            labels,
            relevant=None if labels.relevant is None else move(labels.relevant),
            utilized=None if labels.utilized is None else move(labels.utilized),
            contradicted=() if labels.known_conflicts() == () else None,
            evidence=None if labels.evidence is None else tuple(remaining),
            relevance=None,
            utilization=None,
            completeness=None,
        ),
    )
    if not (used or lost or partly):
        return shortened
    left = shortened.labels
    if labels.evidence is None or labels.unsupported is None:
        adherent = False if labels.adherent is False else None
        left = replace(
            left, unsupported=None, contradicted=None, evidence=None, unclear=(), adherent=adherent
        )
    else:
        kept = [*(evidence.response for evidence in remaining), *partly]
        left = after_loss(left, example.response, lost, kept, [*labels.unclear, *partly])
    return replace(shortened, labels=left)


def text_of(labelled: LabelledExample, span: ContextSpan) -> str:
    """Return the characters of a span of the contexts."""
    return labelled.example.contexts[span.context][span.start : span.end]


def _meet(span: ContextSpan, others: Sequence[ContextSpan]) -> bool:
    here = (other for other in others if other.context == span.context)
    return any(other.start < span.end and span.start < other.end for other in here)
