"""Made-up verdicts and predictions for the tests of measures."""

from __future__ import annotations

import numpy as np

from trivet.measures.predictions import Prediction
from trivet.records import (
    ContextSentence,
    ContextVerdict,
    Evaluation,
    FailedEvaluation,
    LabelledExample,
    Labels,
    MarkedSpan,
    RagExample,
    SentenceVerdict,
    Span,
)
from trivet.thresholds.columns import DevScores

RESPONSE = "Foxes sleep by day. Owls sing at noon."
CONTEXT = "Foxes sleep by day. Owls are silent."
SENTENCES = ((0, 19), (20, 36))
FAILED = FailedEvaluation(id="x", code="too_long", message="too long")


def verdict(
    faithfulness: float | None = 0.8,
    flagged: tuple[tuple[int, int], ...] = (),
    relevance: float | None = 0.5,
    utilization: float | None = 0.5,
    completeness: float | None = 0.5,
    probs: tuple[float, float] = (0.75, 0.25),
) -> Evaluation:
    """Return a verdict; ``probs`` are relevance and utilization of each context sentence."""
    support = 0.0 if faithfulness is None else faithfulness
    context = tuple(
        ContextSentence(start, end, CONTEXT[start:end], *probs) for start, end in SENTENCES
    )
    return Evaluation(
        id="x",
        faithfulness=faithfulness,
        supported_share=1.0,
        relevance=relevance,
        utilization=utilization,
        completeness=completeness,
        adherent=None if faithfulness is None else faithfulness >= 0.5,
        unsupported=tuple(
            MarkedSpan(start, end, RESPONSE[start:end], 0.9) for start, end in flagged
        ),
        sentences=(
            SentenceVerdict(0, 19, RESPONSE[:19], 0.9, True),
            SentenceVerdict(20, 38, RESPONSE[20:], support, support >= 0.5),
        ),
        contexts=(ContextVerdict(relevance=relevance, utilization=utilization, sentences=context),),
        windows=1,
        window_size=512,
        cut_question_tokens=0,
        response_chunks=1,
        replaced_characters=0,
    )


def dev_scores(
    response: str,
    unsupported: tuple[Span, ...] | None,
    adherent: bool | None,
    sentences: list[tuple[int, int, float]],
    tokens: list[tuple[int, int, float]],
    group: str = "g",
) -> DevScores:
    """Return scores of a row; sentences and tokens are given as (start, end, support)."""
    labels = Labels(unsupported=unsupported, adherent=adherent)
    example = RagExample(question="q", contexts=("c",), response=response)
    return DevScores(
        example=LabelledExample(example, labels, "s", group),
        sentence_support=np.array([support for *_, support in sentences], dtype=np.float32),
        token_offsets=np.array([(start, end) for start, end, _ in tokens]).reshape(-1, 2),
        token_support=np.array([support for *_, support in tokens], dtype=np.float32),
        token_sentence=np.array(
            [sum(start >= end for _, end, _ in sentences) for start, *_ in tokens], dtype=np.int64
        ),
    )


def predicted(
    labels: Labels,
    evaluation: Evaluation | FailedEvaluation,
    source: str = "logs",
    group: str = "g",
    generator: str | None = None,
) -> Prediction:
    example = RagExample(question="Who sleeps?", contexts=(CONTEXT,), response=RESPONSE, id="x")
    return Prediction(LabelledExample(example, labels, source, group, generator), evaluation)
