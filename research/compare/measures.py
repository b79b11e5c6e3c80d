"""Measures of systems on the same labelled rows, as `trivet test` takes them, and their costs.

Each figure has an interval over source documents. A row without a score counts as failed and in no
other measure. ``auroc_difference`` is the AUROC less that of the first system, on the rows that
both scored, in the same resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from research.compare.systems import Score
from trivet.errors import DataError
from trivet.labelled.grouping import data_set
from trivet.llm.chat import Price
from trivet.measures.figures import Figure
from trivet.measures.intervals import Draws, auroc
from trivet.measures.metrics import Measured, measure, to_figure
from trivet.measures.predictions import Prediction
from trivet.measures.samples import Sample
from trivet.records import Evaluation, FailedEvaluation, LabelledExample, MarkedSpan

_COSTS = "seconds", "calls", "prompt_tokens", "completion_tokens"


def measure_systems(
    rows: Sequence[LabelledExample], systems: Mapping[str, Sequence[Score]], resamples: int = 1000
) -> list[Figure]:
    """Return the figures of each source and data set, by system.

    Raises:
        DataError: No row says whether its response is supported.
    """
    labelled = [index for index, row in enumerate(rows) if row.labels.adherent is not None]
    if not labelled:
        raise DataError(f"none of the {len(rows)} rows says whether its response is supported")
    figures: list[Figure] = []
    first = next(iter(systems.values()))
    for name, scores in systems.items():
        kept = {"hallucination_auroc", "hallucination_f1_best_threshold", "auroc_difference"}
        if any(score.hallucinated is not None for score in scores):
            kept |= {f"hallucination_{part}" for part in ("f1", "precision", "recall")}
        if any(score.spans is not None for score in scores):
            kept |= {"span_f1"}
        predictions = [Prediction(rows[at], _verdict(rows[at], scores[at])) for at in labelled]
        taken = measure(predictions, resamples=resamples)
        if scores is not first:
            taken += _differences(rows, labelled, (scores, first), resamples)
        figures += [replace(figure, judge=name) for figure in taken if figure.measure in kept]
    return figures


def _verdict(row: LabelledExample, score: Score) -> Evaluation | FailedEvaluation:
    """Return a score as a verdict in which faithfulness, spans and the flag are known."""
    if score.faithfulness is None:
        return FailedEvaluation(row.example.id, str(score.failed), str(score.failed))
    text = row.example.response
    return Evaluation(
        id=row.example.id,
        faithfulness=score.faithfulness,
        supported_share=None,
        relevance=None,
        utilization=None,
        completeness=None,
        adherent=not score.hallucinated,  # its figures are left out without a threshold
        unsupported=tuple(
            MarkedSpan(span.start, span.end, text[span.start : span.end], 0.0)
            for span in score.spans or ()
        ),
        sentences=(),
        contexts=(),
        windows=0,
        window_size=0,
        cut_question_tokens=0,
        response_chunks=0,
        replaced_characters=0,
    )


def _differences(
    rows: Sequence[LabelledExample],
    labelled: Sequence[int],
    pair: tuple[Sequence[Score], Sequence[Score]],
    resamples: int,
) -> list[Figure]:
    """Return the AUROC less that of the first system, for each data set."""
    figures = []
    for name in sorted({data_set(rows[at]) for at in labelled}):
        places = [at for at in labelled if data_set(rows[at]) == name]
        both = [at for at in places if not any(scores[at].failed for scores in pair)]
        positive = np.array([not rows[at].labels.adherent for at in both])
        ours, first = (
            auroc(1 - np.array([scores[at].faithfulness for at in both], dtype=float), positive)
            for scores in pair
        )
        draws = Draws([rows[at].group for at in both], name, resamples)
        every = np.arange(len(both))
        estimate = draws.estimate(ours, every).less(draws.estimate(first, every))
        sample = Sample(
            "auroc_difference", every, ours, int(positive.sum()), len(places) - len(both)
        )
        figures.append(to_figure(name, Measured(sample, estimate, draws.count(every))))
    return figures


def cost_table(systems: Mapping[str, Sequence[Score]], prices: Mapping[str, Price]) -> str:
    """Return a Markdown table: failures, and what a row costs in time, calls, tokens, dollars."""
    head = ("system", "rows", "failed", "seconds, median", "calls", "tokens in", "out", "$ / 1,000")
    lines = [head, ("---", *["---:"] * (len(head) - 1))]
    for name, scores in systems.items():
        seconds, calls, read, written = (
            np.array([getattr(score, cost) for score in scores], dtype=float) for cost in _COSTS
        )
        timed = seconds[np.isfinite(seconds)]
        price = prices.get(name)
        lines.append(
            (
                name,
                f"{len(scores)}",
                f"{sum(score.failed is not None for score in scores)}",
                f"{np.median(timed):.3g}" if len(timed) else "-",
                *(f"{values.mean():.4g}" for values in (calls, read, written)),
                f"{1000 * price.cost(read.mean(), written.mean()):.4g}" if price else "-",
            )
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
