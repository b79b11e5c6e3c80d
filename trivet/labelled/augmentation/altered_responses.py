"""Responses exchanged, quoted from the contexts, cut, lengthened or removed; labels stay true.

Deterministic, like ``altered_contexts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trivet.data.sentences import split_sentences
from trivet.data.spans import subtract_spans
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, Span


def take_pair(labelled: LabelledExample, other: LabelledExample) -> LabelledExample:
    """Replace question and response by those of an unrelated example.

    Nothing of the response is supported and nothing is utilized. A sentence with general support,
    such as "the passages do not say", may be true here too: unknown. Nothing is relevant to a
    question about other passages; if the other data has no relevance labels ("Summarize the
    following"), relevance is unknown.
    """
    asked, theirs = other.example, other.labels
    response = asked.response
    general = [evidence.response for evidence in theirs.evidence or () if not evidence.contexts]
    unclear = subtract_spans(response, general, theirs.unsupported or ())
    unsupported = subtract_spans(response, [Span(0, len(response))], unclear)
    answered = bool(response.strip())
    known = theirs.relevant is not None and bool(asked.question.strip())
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
            contradicted=() if unsupported else None,
            relevant=labelled.labels.relevant if same else () if known else None,
            relevance=labelled.labels.relevance if same else None,
            utilized=() if answered else None,
            evidence=() if answered else None,
        ),
        generator=other.generator,
    )


def quote_contexts(labelled: LabelledExample, quoted: Sequence[ContextSpan]) -> LabelledExample:
    """Replace the response by sentences of the contexts, each supported by itself.

    Relevance stays known. Utilization becomes unknown: another sentence may say the same.
    """
    contexts = labelled.example.contexts
    texts = [" ".join(contexts[s.context][s.start : s.end].split()) for s in quoted]
    starts = [sum(map(len, texts[:index])) + index for index in range(len(texts))]
    spans = [Span(start, start + len(text)) for start, text in zip(starts, texts, strict=True)]
    evidence = tuple(Evidence(s, (q,)) for s, q in zip(spans, quoted, strict=True))
    return replace(
        labelled,
        example=replace(
            labelled.example, response=" ".join(texts), response_sentences=tuple(spans)
        ),
        labels=Labels(
            unsupported=(),
            adherent=True,
            relevant=labelled.labels.relevant,
            relevance=labelled.labels.relevance,
            evidence=evidence,
        ),
        generator=None,
    )


def cut_response(labelled: LabelledExample, sentences: int) -> LabelledExample:
    """Keep the first ``sentences`` sentences of the response, one or more, as in a stream.

    Utilization stays known if the prefix is known to have used all utilized spans, or if the
    evidence of the whole prefix is known; then only the spans named there are utilized.
    """
    example, labels = labelled.example, labelled.labels
    spans = example.response_sentences or split_sentences(example.response)
    if sentences >= len(spans):
        return labelled
    end = spans[sentences - 1].end
    response = example.response[:end]
    unsupported = None if labels.unsupported is None else _clip_spans(response, labels.unsupported)
    unclear = _clip_spans(response, labels.unclear)
    conflicts = labels.known_conflicts()
    evidence = None
    if labels.evidence is not None:
        clipped = ((_clip_spans(response, [e.response]), e.contexts) for e in labels.evidence)
        evidence = tuple(Evidence(here[0], contexts) for here, contexts in clipped if here)
    # A part of a response that is not adherent may be adherent or not.
    adherent: bool | None = labels.adherent or None
    if unsupported is not None:
        adherent = False if unsupported else None if unclear else True
    whole = [e for e in labels.evidence or () if not example.response[end : e.response.end].strip()]
    utilized = _utilized_by(response, labels.utilized, whole)
    same = utilized is not None and utilized == labels.utilized
    response_sentences = example.response_sentences and example.response_sentences[:sentences]
    return replace(
        labelled,
        example=replace(example, response=response, response_sentences=response_sentences),
        labels=replace(
            labels,
            unsupported=unsupported,
            unclear=unclear,
            contradicted=None if conflicts is None else _clip_spans(response, conflicts),
            adherent=adherent,
            evidence=evidence,
            utilized=utilized,
            utilization=labels.utilization if same else None,
            completeness=labels.completeness if same else None,
        ),
    )


def append_sentence(
    labelled: LabelledExample, sentence: str, *, supported: bool
) -> LabelledExample:
    """Append a sentence to the response: an unsupported one, or one that needs no support.

    If only the verdict on a response is known, no more becomes known.
    """
    example, labels = labelled.example, labelled.labels
    before = example.response.rstrip()
    span = Span(len(before) + 1, len(before) + 1 + len(sentence))
    spans = example.response_sentences and (*example.response_sentences, span)
    if supported:
        general = Evidence(span, ())
        evidence = None if labels.evidence is None else (*labels.evidence, general)
        labels = replace(labels, evidence=evidence)
    else:
        known = labels.unsupported is not None or labels.adherent is True
        labels = replace(
            labels,
            unsupported=(*(labels.unsupported or ()), span) if known else None,
            contradicted=labels.known_conflicts(),
            adherent=False,
        )
    return replace(
        labelled,
        example=replace(example, response=f"{before} {sentence}", response_sentences=spans),
        labels=labels,
    )


def empty_response(labelled: LabelledExample) -> LabelledExample:
    """Remove the response; only relevance stays known."""
    labels = Labels(relevant=labelled.labels.relevant, relevance=labelled.labels.relevance)
    example = replace(labelled.example, response="", response_sentences=None)
    return replace(labelled, example=example, labels=labels, generator=None)


def _utilized_by(
    prefix: str, utilized: tuple[ContextSpan, ...] | None, evidence: Sequence[Evidence]
) -> tuple[ContextSpan, ...] | None:
    """Return the spans that a prefix of the response utilizes, or ``None`` if that is unknown."""
    if not utilized:
        return utilized
    named = [span for item in evidence for span in item.contexts]

    def is_named(span: ContextSpan) -> bool:
        here = [other for other in named if other.context == span.context]
        return any(other.start < span.end and span.start < other.end for other in here)

    used = tuple(filter(is_named, utilized))
    attributed = [item.response for item in evidence]
    unattributed = subtract_spans(prefix, [Span(0, len(prefix))], attributed)
    return None if unattributed and len(used) < len(utilized) else used


def _clip_spans(prefix: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the parts of the spans within a prefix of their text that are not blank."""
    clipped = (Span(min(s.start, len(prefix)), min(s.end, len(prefix))) for s in spans)
    return tuple(span for span in clipped if prefix[span.start : span.end].strip())
