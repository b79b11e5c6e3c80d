"""Sources of response sentences by the evidence head: from pairs of sentences to the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np

from trivet.bundle.schema import EvidenceInfo
from trivet.data.lexical_overlap import pair_overlaps
from trivet.data.tokenization import FloatArray, TokenizedExample
from trivet.records import Evaluation, EvidenceSpan
from trivet.report.sources import check_citations

Verdict = TypeVar("Verdict", bound=Evaluation)

MOST_SOURCES = 5  # of one response sentence


def with_sources(
    verdict: Verdict,
    tokens: TokenizedExample,
    logits: FloatArray | None,
    info: EvidenceInfo | None,
) -> Verdict:
    """Return a verdict with the sources of its sentences and its citation marks.

    Args:
        verdict: A verdict without them.
        tokens: Its example.
        logits: Logit of each pair of sentences; None without an evidence head. *Shape:* [S, X].
        info: Map of the logits to sources; None without an evidence head.
    """
    if logits is not None and info is not None and verdict.sentences:
        found = zip(verdict.sentences, source_probs(tokens, logits, info), strict=True)
        sentences = (
            replace(sentence, evidence=_sources(tokens, probs, info, sentence.supported is True))
            for sentence, probs in found
        )
        verdict = replace(verdict, sentences=tuple(sentences))
    return replace(verdict, citations=check_citations(verdict))


def source_probs(
    tokens: TokenizedExample, logits: FloatArray, info: EvidenceInfo
) -> Iterator[FloatArray]:
    """Yield for each response sentence the probability of each context sentence. *Shape:* [X]."""
    for own, overlap in zip(logits, pair_overlaps(tokens), strict=True):
        z = info.scale * own + info.shift + info.lexical_overlap * overlap
        yield 1 / (1 + np.exp(-z))


def _sources(
    tokens: TokenizedExample, probs: FloatArray, info: EvidenceInfo, supported: bool
) -> tuple[EvidenceSpan, ...]:
    """Return the sources of one response sentence, best first.

    A supported sentence has a source, so its best one counts even below the threshold.
    """
    spans = tokens.context_sentence_spans
    best = np.argsort(-probs, kind="stable")[:MOST_SOURCES].tolist()
    return tuple(
        EvidenceSpan(spans[x].context, spans[x].start, spans[x].end, float(probs[x]))
        for rank, x in enumerate(best)
        if probs[x] >= info.threshold or (supported and rank == 0 and probs[x] > 0)
    )
