"""From numbers back to text: what an engine answered, read as an ``Evaluation``.

The reductions of an example stand in ``Outputs`` already. Here token numbers meet the text again:
sentences, contexts, spans, thresholds, and which of the scores mean anything for this example.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trivet.backends.backend import probabilities
from trivet.bundle.schema import Thresholds
from trivet.data.segment_tokenizer import FloatArray, IntArray
from trivet.data.spans import unsupported_spans
from trivet.data.tokenization import TokenizedExample
from trivet.data.windows import Layout
from trivet.model.aggregate import Outputs
from trivet.records import (
    ContextSentence,
    ContextVerdict,
    Evaluation,
    RagExample,
    SentenceVerdict,
    TokenVerdict,
    UnsupportedSpan,
)


def read_verdict(
    example: RagExample,
    read: TokenizedExample,
    layout: Layout,
    outputs: Outputs,
    thresholds: Thresholds,
) -> Evaluation:
    """Turn one example's outputs into its verdict.

    Args:
        example: The texts as the caller gave them; every ``text`` of the verdict is cut from these.
        read: The same, tokenized.
        layout: The same, cut into windows.
        outputs: Numpy, B = 1; positions past R and C are ignored.
        thresholds: The bundle's.

    Returns:
        The verdict. Without response tokens the scores that need a response are ``None``, without
        context tokens those that need a context.

    Raises:
        BackendError: A number that is to be reported is not finite or no probability.
    """
    has_response, has_context = len(read.response) > 0, len(read.context) > 0
    sentences = _sentences(example.response, read, outputs, thresholds) if has_response else ()
    faithfulness = _score(outputs, "faithfulness") if has_response else None
    return Evaluation(
        id=example.id,
        faithfulness=faithfulness,
        supported_share=_share(sentences),
        relevance=_score(outputs, "relevance") if has_context else None,
        utilization=_score(outputs, "utilization") if has_context and has_response else None,
        completeness=_score(outputs, "completeness") if has_context and has_response else None,
        adherent=None if faithfulness is None else faithfulness >= thresholds.adherence,
        unsupported=_unsupported(example.response, read, outputs, thresholds),
        sentences=sentences,
        contexts=_contexts(example.contexts, read, outputs, has_response),
        windows=len(layout.rows),
        window_size=layout.window_size,
        cut_question_tokens=layout.cut_question_tokens,
        response_chunks=layout.response_chunks,
        replaced_characters=read.replaced_characters,
    )


def read_tokens(
    example: RagExample,
    read: TokenizedExample,
    layout: Layout,
    outputs: Outputs,
    thresholds: Thresholds,
) -> tuple[TokenVerdict, ...]:
    """Turn one example's outputs into the verdicts on its response tokens, as ``read_verdict``.

    Raises:
        BackendError: A number that is to be reported is not finite or no probability.
    """
    support = probabilities(outputs.support_probs, "support_probs")[0, : len(read.response)]
    spans = read.response.offsets.tolist()
    return tuple(
        TokenVerdict(start, end, example.response[start:end], value, value >= thresholds.span)
        for (start, end), value in zip(spans, support.tolist(), strict=True)
    )


def _score(outputs: Outputs, name: str) -> float:
    """Return one example score."""
    return float(probabilities(getattr(outputs, name), name)[0])


def _share(sentences: Sequence[SentenceVerdict]) -> float | None:
    """Return the share of supported sentences; ``None`` where there is no sentence."""
    if not sentences:
        return None
    return sum(sentence.supported for sentence in sentences) / len(sentences)


def _sentences(
    response: str, read: TokenizedExample, outputs: Outputs, thresholds: Thresholds
) -> tuple[SentenceVerdict, ...]:
    """Return the verdict on each sentence of the response that has a token."""
    support = probabilities(outputs.sentence_support, "sentence_support")[0]
    verdicts = []
    for number in np.flatnonzero(np.bincount(read.response_sentence)):
        span, value = read.response_sentence_spans[number], float(support[number])
        verdicts.append(
            SentenceVerdict(
                start=span.start,
                end=span.end,
                text=response[span.start : span.end],
                support=value,
                supported=value >= thresholds.sentence,
            )
        )
    return tuple(verdicts)


def _unsupported(
    response: str, read: TokenizedExample, outputs: Outputs, thresholds: Thresholds
) -> tuple[UnsupportedSpan, ...]:
    """Return the unsupported stretches of the response."""
    support = probabilities(outputs.support_probs, "support_probs")[0, : len(read.response)]
    return unsupported_spans(response, read.response.offsets, support, thresholds.span)


def _contexts(
    contexts: Sequence[str], read: TokenizedExample, outputs: Outputs, has_response: bool
) -> tuple[ContextVerdict, ...]:
    """Return one verdict a context, each of its sentences that has a token included."""
    count = len(read.context_sentence_spans)
    tokens = np.bincount(read.context_sentence, minlength=count)
    relevance = _sentence_means(outputs.relevance_probs, "relevance_probs", read, tokens)
    utilization = _sentence_means(outputs.utilization_probs, "utilization_probs", read, tokens)
    found: list[list[ContextSentence]] = [[] for _ in contexts]
    for number in np.flatnonzero(tokens):
        span = read.context_sentence_spans[number]
        found[span.context].append(
            ContextSentence(
                start=span.start,
                end=span.end,
                text=contexts[span.context][span.start : span.end],
                relevance=float(relevance[number]),
                utilization=float(utilization[number]) if has_response else None,
            )
        )
    return tuple(_context(sentences, has_response) for sentences in found)


def _context(sentences: Sequence[ContextSentence], has_response: bool) -> ContextVerdict:
    """Return the verdict on one context: like the example's, a mean over sentences."""
    if not sentences:
        return ContextVerdict(relevance=None, utilization=None, sentences=())
    utilized = [s.utilization for s in sentences if s.utilization is not None]
    return ContextVerdict(
        relevance=sum(sentence.relevance for sentence in sentences) / len(sentences),
        utilization=sum(utilized) / len(utilized) if has_response else None,
        sentences=tuple(sentences),
    )


def _sentence_means(
    values: npt.ArrayLike, name: str, read: TokenizedExample, tokens: IntArray
) -> FloatArray:
    """Average a context token's number over each context sentence; 0 where one has no token.

    Args:
        values: *Shape:* [1, C or more].
        name: The field of ``Outputs``.
        read: The example.
        tokens: How many tokens each sentence has. *Shape:* [sentences].

    Returns:
        *Shape:* [sentences].
    """
    numbers = probabilities(np.asarray(values)[0, : len(read.context)], name)
    sums = np.bincount(read.context_sentence, weights=numbers, minlength=len(tokens))
    return np.clip(sums / np.maximum(tokens, 1), 0.0, 1.0)
