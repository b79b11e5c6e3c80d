"""From outputs to verdicts: token numbers become sentences, contexts, spans and scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from trivet.bundle.info import EvidenceInfo, Thresholds
from trivet.data.language import foreign_language
from trivet.data.lexical_overlap import pair_overlaps
from trivet.data.spans import mark_tokens
from trivet.data.tokenization import FloatArray, IntArray, TokenizedExample
from trivet.errors import BackendError
from trivet.evaluation.packing import probabilities
from trivet.evaluation.preprocessing import PreprocessedExample, Refusal
from trivet.evaluation.spans_to_check import spans_to_check
from trivet.evaluation.unsupported_spans import SentenceMarks
from trivet.model.aggregate import Outputs
from trivet.model.architecture import NO_LAYER, SentenceLayer
from trivet.records import (
    ContextName,
    ContextSentence,
    ContextVerdict,
    Evaluation,
    EvidenceSpan,
    FailedEvaluation,
    MarkedSpan,
    RagExample,
    SentenceVerdict,
    Span,
    TokenVerdict,
)
from trivet.report.shown_sources import check_citations

T = TypeVar("T")
Verdict = TypeVar("Verdict", bound=Evaluation)

MAX_SOURCES = 5  # of one response sentence


@dataclass(frozen=True)
class Decision:
    """Rules by which support becomes verdicts, from a bundle and the options of a call."""

    thresholds: Thresholds
    layer: SentenceLayer = NO_LAYER  # that of the bundle, with which its sentences were joined
    strict: bool = False  # whether spans to check are unsupported


def to_evaluation(
    preprocessed: PreprocessedExample, outputs: Outputs, decision: Decision | None
) -> Evaluation:
    """Return the verdict on one example.

    Args:
        preprocessed: Example; every ``text`` of the verdict is cut from its original texts.
        outputs: Numpy arrays, B = 1; positions past R and C are ignored.
        decision: Thresholds and options that decide; None without a support head.

    Returns:
        The verdict. Its response is adherent if no sentence is unsupported; every unsupported
        sentence has a span, and every span is in one. Without response tokens the scores that need
        a response are ``None``, without context tokens those that need a context, and without a
        head its own. An abstention is neither faithful nor complete, and uses no context.

    Raises:
        BackendError: A number of the verdict is not finite or no probability.
    """
    example, tokens, layout = preprocessed.example, preprocessed.tokens, preprocessed.layout
    has_response, has_context = len(tokens.response) > 0, len(tokens.context) > 0
    sentences: tuple[SentenceVerdict, ...] = ()
    unsupported: tuple[MarkedSpan, ...] = ()
    to_check: tuple[MarkedSpan, ...] = ()
    if has_response and decision is not None:
        sentences, unsupported, to_check = _judged(preprocessed, outputs, decision)
    judged = [sentence.supported for sentence in sentences if sentence.supported is not None]
    abstains = "abstention" in layout.roles and "claim" not in layout.roles
    if abstains and outputs.utilization_probs is not None:
        outputs = outputs._replace(
            utilization_probs=np.zeros_like(outputs.utilization_probs),
            utilization=np.zeros_like(outputs.utilization),
        )
    scores: dict[str, float | None] = {}
    for name, known in (
        ("faithfulness", has_response),
        ("relevance", has_context),
        ("utilization", has_context and has_response),
        ("completeness", has_context and has_response),
    ):
        value = getattr(outputs, name) if known else None
        scores[name] = None if value is None else float(probabilities(value, name)[0])
    if abstains:
        scores["faithfulness"] = None
    if abstains or (sentences and not any(judged)):
        scores["completeness"] = None
    return Evaluation(
        id=example.id,
        faithfulness=scores["faithfulness"],
        supported_share=sum(judged) / len(judged) if judged else None,
        relevance=scores["relevance"],
        utilization=scores["utilization"],
        completeness=scores["completeness"],
        adherent=all(judged) if sentences else None,
        unsupported=unsupported,
        sentences=sentences,
        contexts=_contexts(example, tokens, outputs, has_response),
        windows=len(layout.rows),
        window_size=layout.window_size,
        cut_question_tokens=layout.cut_question_tokens,
        response_chunks=layout.response_chunks,
        replaced_characters=tokens.replaced_characters,
        threshold=None if decision is None else decision.thresholds.sentence,
        language=foreign_language(example.response, example.contexts),
        abstains=abstains,
        to_check=to_check,
    )


def to_token_verdicts(
    preprocessed: PreprocessedExample, outputs: Outputs, decision: Decision | None
) -> tuple[TokenVerdict, ...]:
    """Return the verdicts on the response tokens of one example; see ``to_evaluation``.

    A token is unsupported if an unsupported span touches it.

    Raises:
        BackendError: The bundle has no support head.
    """
    decision = with_support(decision, "tokens")
    tokens, text = preprocessed.tokens, preprocessed.example.response
    response = tokens.response
    support = probabilities(outputs.support_probs, "support_probs")[0, : len(response)]
    _, spans, _ = _judged(preprocessed, outputs, decision)
    marked = mark_tokens(response.offsets, [Span(span.start, span.end) for span in spans])
    return tuple(
        TokenVerdict(start, end, text[start:end], value, not unsupported)
        for (start, end), value, unsupported in zip(
            response.offsets.tolist(), support.tolist(), marked.tolist(), strict=True
        )
    )


def with_support(threshold: T | None, judged: str) -> T:
    """Return the threshold, or thresholds, of a bundle or a verdict, if it has any.

    ``judged`` is a plural noun for the message, such as ``sentences``.

    Raises:
        BackendError: The bundle has no support head.
    """
    if threshold is None:
        raise BackendError(f"the bundle has no support head, so {judged} have no verdict")
    return threshold


def to_result(outcome: Evaluation | Refusal, id_: str | None) -> Evaluation | FailedEvaluation:
    """Return a verdict as it is, and an error as the failure that takes its place."""
    return outcome if isinstance(outcome, Evaluation) else FailedEvaluation.of(outcome, id_)


def _judged(
    preprocessed: PreprocessedExample, outputs: Outputs, decision: Decision
) -> tuple[tuple[SentenceVerdict, ...], tuple[MarkedSpan, ...], tuple[MarkedSpan, ...]]:
    """Return the sentences of a response, its unsupported spans and those to check."""
    thresholds = decision.thresholds
    sentences = _sentences(preprocessed, outputs, thresholds.sentence)
    support = probabilities(outputs.support_probs, "support_probs")[0]
    marks = SentenceMarks(preprocessed, support, thresholds, decision.layer)
    unsupported = marks.unsupported(sentences)
    to_check = spans_to_check(marks, sentences, thresholds.sentence)
    if decision.strict and to_check:
        held = {s.start for s in sentences for span in to_check if s.start <= span.start < s.end}
        sentences = tuple(replace(s, supported=False) if s.start in held else s for s in sentences)
        unsupported = tuple(sorted([*unsupported, *to_check], key=attrgetter("start")))
        to_check = ()
    return sentences, unsupported, to_check


def _sentences(
    preprocessed: PreprocessedExample, outputs: Outputs, threshold: float
) -> tuple[SentenceVerdict, ...]:
    """Return the verdict on each sentence of the response that has a token.

    One is unsupported if its support is below the threshold. A sentence that claims nothing, as an
    abstention, has no verdict.
    """
    response, tokens = preprocessed.example.response, preprocessed.tokens
    support = probabilities(outputs.sentence_support, "sentence_support")[0]
    verdicts = []
    for number in np.flatnonzero(np.bincount(tokens.response_sentence)):
        span, role = tokens.response_sentence_spans[number], preprocessed.layout.roles[number]
        sentence = span.start, span.end, response[span.start : span.end]
        if role == "claim":
            value = float(support[number])
            verdicts.append(SentenceVerdict(*sentence, value, value >= threshold))
        else:
            abstains = role == "abstention"
            verdicts.append(SentenceVerdict(*sentence, None, None, abstains=abstains))
    return tuple(verdicts)


def _contexts(
    example: RagExample, tokens: TokenizedExample, outputs: Outputs, has_response: bool
) -> tuple[ContextVerdict, ...]:
    """Return one verdict for each context, with its sentences that have a token."""
    counts = np.bincount(tokens.context_sentence, minlength=len(tokens.context_sentence_spans))
    relevance = _sentence_means(outputs.relevance_probs, "relevance_probs", tokens, counts)
    utilized = outputs.utilization_probs if has_response else None
    utilization = _sentence_means(utilized, "utilization_probs", tokens, counts)
    contexts = example.contexts
    by_context: list[list[ContextSentence]] = [[] for _ in contexts]
    for number in np.flatnonzero(counts):
        span = tokens.context_sentence_spans[number]
        by_context[span.context].append(
            ContextSentence(
                start=span.start,
                end=span.end,
                text=contexts[span.context][span.start : span.end],
                relevance=None if relevance is None else float(relevance[number]),
                utilization=None if utilization is None else float(utilization[number]),
            )
        )
    return tuple(
        ContextVerdict(
            _mean(s.relevance for s in sentences),
            _mean(s.utilization for s in sentences),
            tuple(sentences),
            *name,
        )
        for sentences, name in zip(
            (by_context[first] for first in tokens.first_copy),
            example.context_names or (ContextName(),) * len(by_context),
            strict=True,
        )
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean over sentences, as in the example's own scores; None if it is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _sentence_means(
    values: npt.ArrayLike | None, name: str, tokens: TokenizedExample, counts: IntArray
) -> FloatArray | None:
    """Average the probabilities [1, C or more] of each context sentence; 0 without tokens."""
    if values is None:
        return None
    numbers = probabilities(np.asarray(values)[0, : len(tokens.context)], name)
    sums = np.bincount(tokens.context_sentence, weights=numbers, minlength=len(counts))
    return np.clip(sums / np.maximum(counts, 1), 0.0, 1.0)


def with_sources(
    verdict: Verdict, tokens: TokenizedExample, logits: FloatArray | None, info: EvidenceInfo | None
) -> Verdict:
    """Return a verdict with the sources of its sentences, best first, and its citation marks.

    A supported sentence has a source, so its best one counts even below the threshold. The logits
    of each pair of sentences [S, X] and their map are None without an evidence head.
    """
    if logits is not None and info is not None and verdict.sentences:
        spans, sentences = tokens.context_sentence_spans, []
        pairs = zip(verdict.sentences, logits, pair_overlaps(tokens), strict=True)
        for sentence, sentence_logits, overlap in pairs:
            z = info.scale * sentence_logits + info.shift + info.lexical_overlap * overlap
            probs = 1 / (1 + np.exp(-z))
            best = np.argsort(-probs, kind="stable")[:MAX_SOURCES].tolist()
            sources = tuple(
                EvidenceSpan(spans[x].context, spans[x].start, spans[x].end, float(probs[x]))
                for x in best
                if probs[x] >= info.threshold
                or (sentence.supported is True and x == best[0] and probs[x] > 0)
            )
            sentences.append(replace(sentence, evidence=sources))
        verdict = replace(verdict, sentences=tuple(sentences))
    if "[" in tokens.example.response or tokens.example.context_names:
        verdict = replace(verdict, citations=check_citations(verdict))
    return verdict
