"""From outputs to verdicts: token numbers become sentences, contexts, spans and scores."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from trivet.bundle.schema import Thresholds
from trivet.data.language import foreign_language
from trivet.data.spans import mark_tokens, subtract_spans
from trivet.data.tokenization import FloatArray, IntArray, TokenizedExample
from trivet.errors import BackendError, WindowError
from trivet.evaluation.packing import probabilities
from trivet.evaluation.preprocessing import PreprocessedExample, Refusal
from trivet.evaluation.value_marks import mark_values
from trivet.model.aggregate import Outputs
from trivet.records import (
    ContextName,
    ContextSentence,
    ContextVerdict,
    Evaluation,
    FailedEvaluation,
    RagExample,
    SentenceVerdict,
    Span,
    TokenVerdict,
    UnsupportedSpan,
)

T = TypeVar("T")

_JOINERS = "\u200c\u200d"  # between letters of one word, and between the parts of one emoji
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_CLOSING = frozenset(".,;:!?)")  # punctuation that closes words and therefore begins no span


def to_evaluation(
    preprocessed: PreprocessedExample, outputs: Outputs, thresholds: Thresholds | None
) -> Evaluation:
    """Return the verdict on one example.

    Args:
        preprocessed: Example; every ``text`` of the verdict is cut from its original texts.
        outputs: Numpy arrays, B = 1; positions past R and C are ignored.
        thresholds: Thresholds of the bundle, or those of the call; None without a support head.

    Returns:
        The verdict. Its response is adherent if no sentence is unsupported; every unsupported
        sentence has a span, and every span is in one. Without response tokens the scores that need
        a response are ``None``, without context tokens those that need a context, and without a
        head its own.

    Raises:
        BackendError: A number of the verdict is not finite or no probability.
    """
    example, tokens, layout = preprocessed.example, preprocessed.tokens, preprocessed.layout
    has_response, has_context = len(tokens.response) > 0, len(tokens.context) > 0
    sentences: tuple[SentenceVerdict, ...] = ()
    unsupported: tuple[UnsupportedSpan, ...] = ()
    if has_response and thresholds is not None:
        sentences = _sentences(preprocessed, outputs, thresholds)
        unsupported = _unsupported(preprocessed, outputs, sentences, thresholds)
    # An abstention that is unsupported counts like a sentence: no adherent response has one.
    denials = [
        s.support for s in sentences if s.abstains and not s.supported and s.support is not None
    ]
    judged = [each.supported for each in sentences if each.supported is not None]
    scores: dict[str, float | None] = {}
    for name, known in (
        ("faithfulness", has_response),
        ("relevance", has_context),
        ("utilization", has_context and has_response),
        ("completeness", has_context and has_response),
    ):
        value = getattr(outputs, name) if known else None
        scores[name] = None if value is None else float(probabilities(value, name)[0])
    if denials and scores["faithfulness"] is not None:
        scores["faithfulness"] = min(scores["faithfulness"], *denials)
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
        threshold=_least_support(preprocessed, thresholds) if thresholds else None,
        language=foreign_language(example.response, example.contexts),
        abstains="abstention" in layout.roles and "claim" not in layout.roles,
    )


def to_token_verdicts(
    preprocessed: PreprocessedExample, outputs: Outputs, thresholds: Thresholds | None
) -> tuple[TokenVerdict, ...]:
    """Return the verdicts on the response tokens of one example; see ``to_evaluation``.

    A token is unsupported if an unsupported span touches it.

    Raises:
        BackendError: The bundle has no support head.
    """
    thresholds = with_support(thresholds, "tokens")
    response, text = preprocessed.tokens.response, preprocessed.example.response
    support = probabilities(outputs.support_probs, "support_probs")[0, : len(response)]
    sentences = _sentences(preprocessed, outputs, thresholds)
    spans = _unsupported(preprocessed, outputs, sentences, thresholds)
    marked = mark_tokens(response.offsets, [Span(span.start, span.end) for span in spans])
    return tuple(
        TokenVerdict(start, end, text[start:end], value, not unsupported)
        for (start, end), value, unsupported in zip(
            response.offsets.tolist(), support.tolist(), marked.tolist(), strict=True
        )
    )


def with_support(threshold: T | None, judged: str) -> T:
    """Return the threshold, or thresholds, that the support of something is compared with.

    Args:
        threshold: That of a bundle or of a verdict; ``None`` without a support head.
        judged: Plural noun for the message, such as ``sentences``.

    Raises:
        BackendError: The bundle has no support head.
    """
    if threshold is None:
        raise BackendError(f"the bundle has no support head, so {judged} have no verdict")
    return threshold


def to_result(outcome: Evaluation | Refusal, id_: str | None) -> Evaluation | FailedEvaluation:
    """Return a verdict as it is, and an error as the failure that takes its place."""
    if isinstance(outcome, Evaluation):
        return outcome
    if isinstance(outcome, WindowError):
        return FailedEvaluation(id_, "window", str(outcome))
    return FailedEvaluation.of(outcome, id_)


def lettucedetect_spans(
    verdict: Evaluation, probability: str = "confidence", least: float = 0.0
) -> list[dict[str, Any]]:
    """Return the unsupported spans of a verdict in the format of LettuceDetect.

    Args:
        verdict: The verdict.
        probability: Key of the probability of being unsupported: ``confidence`` in their call,
            ``hallucination_score`` over HTTP.
        least: Minimum of this probability.

    Returns:
        For each span ``start``, ``end`` (characters of the answer), ``text``, its probability, and
        ``category`` and ``subcategory`` where they are known.
    """
    spans = []
    for span in (each for each in verdict.unsupported if each.probability >= least):
        kinds = {"category": span.category, "subcategory": span.subcategory}
        place = {"start": span.start, "end": span.end, probability: span.probability}
        known = {name: kind for name, kind in kinds.items() if kind is not None}
        spans.append({**place, "text": span.text, **known})
    return spans


def _sentences(
    preprocessed: PreprocessedExample, outputs: Outputs, thresholds: Thresholds
) -> tuple[SentenceVerdict, ...]:
    """Return the verdict on each sentence of the response that has a token.

    One is unsupported if its support and that of the whole response are below the threshold, so a
    response whose two weakest sentences reach it has none; of an example whose sentences stand
    alone, if its support is. A sentence without a claim has no verdict. A response that abstains
    and claims nothing is unsupported if a context sentence answers the question; beside claims,
    "the passages do not say" is about a detail.
    """
    response, tokens = preprocessed.example.response, preprocessed.tokens
    support = probabilities(outputs.sentence_support, "sentence_support")[0]
    whole = float(probabilities(outputs.faithfulness, "faithfulness")[0])
    least = _least_support(preprocessed, thresholds)
    verdicts = []
    for number in np.flatnonzero(np.bincount(tokens.response_sentence)):
        span, role = tokens.response_sentence_spans[number], preprocessed.layout.roles[number]
        place = span.start, span.end, response[span.start : span.end]
        if role == "claim":
            value = float(support[number])
            supported = (value if preprocessed.alone else max(value, whole)) >= least
            verdicts.append(SentenceVerdict(*place, value, supported))
        elif role == "no_claim":
            verdicts.append(SentenceVerdict(*place, None, None))
        else:
            value = 1 - _most_relevant(tokens, outputs)
            answered = thresholds.answered is not None and 1 - value >= thresholds.answered
            denied = answered and "claim" not in preprocessed.layout.roles
            verdicts.append(SentenceVerdict(*place, value, not denied, abstains=True))
    return tuple(verdicts)


def _least_support(preprocessed: PreprocessedExample, thresholds: Thresholds) -> float:
    """Return the threshold that the support of a sentence is compared with."""
    return thresholds.single if preprocessed.alone else thresholds.sentence


def _most_relevant(tokens: TokenizedExample, outputs: Outputs) -> float:
    """Return the relevance of the most relevant context sentence; 0 without one or its head."""
    counts = np.bincount(tokens.context_sentence)
    found = _sentence_means(outputs.relevance_probs, "relevance_probs", tokens, counts)
    return 0.0 if found is None else float(found.max(initial=0.0))


def _unsupported(
    preprocessed: PreprocessedExample,
    outputs: Outputs,
    sentences: Sequence[SentenceVerdict],
    thresholds: Thresholds,
) -> tuple[UnsupportedSpan, ...]:
    """Return the spans of each unsupported sentence.

    These are the values that its sources do not have and its weakest words, or all of it.
    """
    tokens, layout = preprocessed.tokens, preprocessed.layout
    support = probabilities(outputs.support_probs, "support_probs")[0]
    found: list[UnsupportedSpan] = []
    numbers = np.flatnonzero(np.bincount(tokens.response_sentence))
    for number, sentence in zip(numbers.tolist(), sentences, strict=True):
        if sentence.supported is not False or sentence.support is None:
            continue
        text, probability = sentence.text, 1 - sentence.support
        values = mark_values(tokens, layout, number, probability)
        inside = np.flatnonzero(tokens.response_sentence == number)
        # Some tokens begin at the space before their word, which is before the sentence.
        offsets = np.clip(tokens.response.offsets[inside] - sentence.start, 0, len(text))
        weak = unsupported_spans(text, offsets, support[inside], thresholds.span)
        if not weak and not values:
            weak = (UnsupportedSpan(0, len(text), text, probability),)
        moved = (
            replace(span, start=sentence.start + span.start, end=sentence.start + span.end)
            for span in weak
        )
        beside = _beside(moved, values, preprocessed.example.response) if values else moved
        found += sorted([*values, *beside], key=lambda span: span.start)
    return tuple(found)


def _beside(
    spans: Iterable[UnsupportedSpan], values: Sequence[UnsupportedSpan], response: str
) -> Iterator[UnsupportedSpan]:
    """Yield the parts of spans that no value covers; punctuation and single characters are none."""
    covered = [Span(value.start, value.end) for value in values]
    for span in spans:
        for part in subtract_spans(response, [Span(span.start, span.end)], covered):
            text = response[part.start : part.end]
            if sum(map(str.isalnum, text)) >= 2:
                yield replace(span, start=part.start, end=part.end, text=text)


def _contexts(
    example: RagExample, tokens: TokenizedExample, outputs: Outputs, has_response: bool
) -> tuple[ContextVerdict, ...]:
    """Return one verdict for each context, with its sentences that have a token."""
    counts = np.bincount(tokens.context_sentence, minlength=len(tokens.context_sentence_spans))
    relevance = _sentence_means(outputs.relevance_probs, "relevance_probs", tokens, counts)
    utilized = outputs.utilization_probs if has_response else None
    utilization = _sentence_means(utilized, "utilization_probs", tokens, counts)
    contexts = example.contexts
    found: list[list[ContextSentence]] = [[] for _ in contexts]
    for number in np.flatnonzero(counts):
        span = tokens.context_sentence_spans[number]
        found[span.context].append(
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
            found, example.context_names or (ContextName(),) * len(found), strict=True
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


def unsupported_spans(
    text: str, offsets: IntArray, support_probs: npt.NDArray[np.floating], threshold: float
) -> tuple[UnsupportedSpan, ...]:
    """Turn the support probabilities [R] of tokens at ``offsets`` [R, 2] into unsupported spans.

    Runs of tokens below the threshold are merged and extended to whole words. Spans that contain
    only punctuation or a single character are dropped.
    """
    below = np.concatenate([[False], support_probs < threshold, [False]])
    edges = np.flatnonzero(below[1:] != below[:-1])
    words: list[tuple[int, int]] = []
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        start, end = int(offsets[first, 0]), int(offsets[last - 1, 1])
        reached = words[-1][1] if words else 0
        if words and end <= reached:
            continue
        # Stop at the previous span: searching one long word again and again takes quadratic time.
        start, end = _whole_words(text, start, end, reached)
        if words and start <= words[-1][1]:
            before = words.pop()
            start, end = before[0], max(before[1], end)
        words.append((start, end))
    spans = []
    # The tokens of a span are consecutive, so its mean is a difference of cumulative sums.
    total = np.concatenate([[0.0], np.cumsum(1.0 - support_probs.astype(np.float64))])
    for start, end in words:
        if sum(map(str.isalnum, text[start:end])) < 2:
            continue
        first = int(np.searchsorted(offsets[:, 1], start, side="right"))
        last = int(np.searchsorted(offsets[:, 0], end, side="left"))
        mean = (total[last] - total[first]) / max(1, last - first)
        probability = float(np.clip(mean, 0.0, 1.0))
        spans.append(UnsupportedSpan(start, end, text[start:end], probability))
    return tuple(spans)


def _whole_words(text: str, start: int, end: int, reached: int) -> tuple[int, int]:
    """Extend a range of characters to whole words, to the left no further than ``reached``."""
    while start < end and (text[start].isspace() or text[start] in _CLOSING):
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start == end:
        return start, end
    while start > reached and _joined(text[start - 1], text[start]):
        start -= 1
    while end < len(text) and _joined(text[end - 1], text[end]):
        end += 1
    return start, end


def _joined(left: str, right: str) -> bool:
    """Tell whether two neighbouring characters belong to one word."""
    if _is_mark(right) or right in _JOINERS or left in _JOINERS:
        return True  # an accent or a joined emoji stays with its base character
    return _in_word(left) and _in_word(right)


def _in_word(character: str) -> bool:
    # Scripts written without spaces (wide characters) have no word boundaries to extend to.
    in_word = character.isalnum() or _is_mark(character)
    return in_word and unicodedata.east_asian_width(character) not in ("W", "F")


def _is_mark(character: str) -> bool:
    # ``combining`` misses the vowel signs of Indic scripts and variation selectors.
    return unicodedata.category(character).startswith("M") or character in _SKIN_TONES
