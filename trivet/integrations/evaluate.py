"""Hugging Face evaluate: a metric over lists.

from trivet.integrations.evaluate import metric

metric().compute(predictions=responses, questions=questions, contexts=contexts)
"""

from __future__ import annotations

from typing import Any

from trivet.integrations.judge import Judge, default_judge, foreign, judge_many
from trivet.integrations.rows import example
from trivet.integrations.score_columns import score_columns


def metric(judge: Judge | None = None) -> Any:
    """Return an ``evaluate.Metric``; all rows are judged together.

    It gives for each score the mean, and under ``faithfulness_scores`` and so on the values of all
    rows, ``None`` where a row has none; beside each mean ``_n`` and ``_n_failed``.

    Args:
        judge: Who judges; ``None`` is the embedded bundle.

    Raises:
        MissingLibraryError: ``evaluate`` or ``datasets`` is not installed.
    """
    library = foreign("evaluate", "evaluate")
    datasets = foreign("datasets", "datasets")
    base: Any = library.Metric
    chosen = judge or default_judge()
    features = {
        "predictions": datasets.Value("string"),
        "questions": datasets.Value("string"),
        "contexts": datasets.Sequence(datasets.Value("string")),
    }

    class Trivet(base):
        """Faithfulness, context relevance, utilization and completeness of RAG answers."""

        def _info(self) -> Any:
            return library.MetricInfo(
                description=__doc__,
                citation="",
                inputs_description="",
                features=datasets.Features(features),
            )

        def _compute(
            self, predictions: list[str], questions: list[str], contexts: list[list[str]]
        ) -> dict[str, Any]:
            rows = zip(questions, contexts, predictions, strict=True)
            results = judge_many(chosen, [example(*row) for row in rows])
            computed: dict[str, Any] = {}
            for score, column in score_columns(results).items():
                computed[score] = column["score"]
                computed[f"{score}_scores"] = column["individual_scores"]
                computed[f"{score}_n"] = column["n"]
                computed[f"{score}_n_failed"] = column["n_failed"]
            return computed

    return Trivet()
