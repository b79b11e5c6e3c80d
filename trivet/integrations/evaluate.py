"""Provides a Hugging Face ``evaluate`` metric over lists.

Example: ``metric().compute(predictions=responses, questions=questions, contexts=contexts)``
"""

from __future__ import annotations

from typing import Any

from trivet.integrations.judge import Judge, default_judge, import_tool, judge_many, score_columns
from trivet.integrations.rows import example


def metric(judge: Judge | None = None) -> Any:
    """Return an ``evaluate.Metric`` that evaluates all rows together.

    For each score it returns the mean, the values as ``faithfulness_scores`` and so on (``None``
    if undefined), and the counts ``faithfulness_n`` and ``faithfulness_n_failed``.
    """
    library = import_tool("evaluate", "evaluate")
    datasets = import_tool("datasets", "datasets")
    base: Any = library.Metric
    chosen = judge or default_judge()
    text = datasets.Value("string")
    features = {"predictions": text, "questions": text, "contexts": datasets.Sequence(text)}

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
