"""Rows whose texts a benchmark has altered: judged, and measured by the labels they keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trivet.evaluation.evaluator import Evaluator
from trivet.measures.figures import to_markdown
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.records import LabelledExample, RagExample


def measured(
    evaluator: Evaluator,
    labelled: Sequence[LabelledExample],
    inputs: Iterable[RagExample],
    measures: Sequence[str],
) -> str:
    """Judge the inputs and return some measures over all generators, as a Markdown table.

    Args:
        evaluator: The judge.
        labelled: What is known of each input.
        inputs: What is judged, one for each.
        measures: Names of measures.
    """
    rows = [
        Prediction(known, result)
        for known, result in zip(labelled, evaluator.evaluate_many(inputs), strict=True)
    ]
    return to_markdown(
        [
            figure
            for figure in measure(rows)
            if figure.measure in measures and figure.generator is None
        ]
    )
