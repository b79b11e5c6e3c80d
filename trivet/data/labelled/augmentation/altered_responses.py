"""Responses exchanged, cut or taken away, and labels that are true of what is there.

Torch-free and without chance, like ``altered_contexts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trivet.data.labelled.augmentation.span_operations import clip, stretches
from trivet.data.sentences import split_sentences
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, Span


def take_pair(labelled: LabelledExample, other: LabelledExample) -> LabelledExample:
    """Put the question and the response of a stranger before this example's contexts.

    Nothing of the response is supported and nothing is utilized. What is supported by no passage in
    particular, "the passages do not say" above all, may hold here too: unknown. Nothing is relevant
    to a question that was asked of other passages; where the stranger's data never judged
    relevance ("Summarize the following"), that is unknown too.
    """
    asked, theirs = other.example, other.labels
    response = asked.response
    general = [each.response for each in theirs.evidence or () if not each.contexts]
    unclear = stretches(response, general, but=theirs.unsupported or ())
    unsupported = stretches(response, [Span(0, len(response))], but=unclear)
    answered = bool(response.strip())
    judged = theirs.relevant is not None and bool(asked.question.strip())
    same = bool(asked.question.strip()) and asked.question == labelled.example.question
    return replace(
        labelled,
        example=replace(
            labelled.example,
            question=asked.question,
            response=response,
            response_sentences=asked.response_sentences,
        ),
        labels=Labels(
            unsupported=unsupported or None,
            unclear=unclear if unsupported else (),
            adherent=False if unsupported else None,
            relevant=labelled.labels.relevant if same else () if judged else None,
            relevance=labelled.labels.relevance if same else None,
            utilized=() if answered else None,
            evidence=() if answered else None,
        ),
        generator=other.generator,
    )


def cut_response(labelled: LabelledExample, sentences: int) -> LabelledExample:
    """Keep the first ``sentences`` sentences of the response, as a stream has them first.

    What is utilized stays known where the prefix is known to have drawn on all of it, or where the
    evidence of the whole prefix is known: then only what is named there.

    Raises:
        ValueError: Fewer than one sentence is to be kept.
    """
    if sentences < 1:
        raise ValueError(f"{sentences} sentences to keep: at least 1; see empty_response")
    example, labels = labelled.example, labelled.labels
    spans = example.response_sentences or split_sentences(example.response)
    if sentences >= len(spans):
        return labelled
    end = spans[sentences - 1].end
    response = example.response[:end]
    unsupported = None if labels.unsupported is None else clip(response, labels.unsupported)
    unclear = clip(response, labels.unclear)
    evidence = None
    if labels.evidence is not None:
        clipped = ((clip(response, [each.response]), each.contexts) for each in labels.evidence)
        evidence = tuple(Evidence(here[0], contexts) for here, contexts in clipped if here)
    # Of a part of what is not adherent nothing is known.
    adherent: bool | None = labels.adherent or None
    if unsupported is not None:
        adherent = False if unsupported else None if unclear else True
    whole = [e for e in labels.evidence or () if not example.response[end : e.response.end].strip()]
    utilized = _drawn_on(response, labels.utilized, whole)
    same = utilized is not None and utilized == labels.utilized
    return replace(
        labelled,
        example=replace(
            example,
            response=response,
            response_sentences=example.response_sentences
            and example.response_sentences[:sentences],
        ),
        labels=replace(
            labels,
            unsupported=unsupported,
            unclear=unclear,
            adherent=adherent,
            evidence=evidence,
            utilized=utilized,
            utilization=labels.utilization if same else None,
            completeness=labels.completeness if same else None,
        ),
    )


def empty_response(labelled: LabelledExample) -> LabelledExample:
    """Take the response away: relevance alone is known."""
    labels = Labels(relevant=labelled.labels.relevant, relevance=labelled.labels.relevance)
    example = replace(labelled.example, response="", response_sentences=None)
    return replace(labelled, example=example, labels=labels, generator=None)


def _drawn_on(
    prefix: str, utilized: tuple[ContextSpan, ...] | None, evidence: Sequence[Evidence]
) -> tuple[ContextSpan, ...] | None:
    if not utilized:
        return utilized  # what the whole did not draw on, no part of it did
    named = [span for each in evidence for span in each.contexts]
    used = tuple(
        span
        for span in utilized
        if any(
            other.context == span.context and other.start < span.end and span.start < other.end
            for other in named
        )
    )
    attributed = [each.response for each in evidence]
    if len(used) == len(utilized) or not stretches(prefix, [Span(0, len(prefix))], but=attributed):
        return used
    return None
