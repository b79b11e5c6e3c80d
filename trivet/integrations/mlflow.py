"""Provides a scorer for ``mlflow.genai.evaluate``.

Example: ``mlflow.genai.evaluate(data=rows, scorers=[scorer()])``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.integrations.judge import (
    Judge,
    VerdictCache,
    details,
    import_tool,
    read_row,
    reason,
    scores_of,
)


def scorer(
    judge: Judge | None = None, mapping: Mapping[str, str] | None = None, **options: Any
) -> Any:
    """Return a ``Scorer`` that gives one ``Feedback`` per score.

    Question, contexts and response are read from ``inputs`` and ``outputs``. Outputs that are a
    string are the response; missing contexts are read from the trace's retriever spans.
    """
    genai = import_tool("mlflow.genai", "mlflow")
    entities = import_tool("mlflow.entities", "mlflow")
    cache = VerdictCache(judge, **options)

    def trivet(inputs: Any, outputs: Any, trace: Any = None) -> list[Any]:
        row = read_row(merged(inputs, outputs, trace), mapping)
        verdict = cache.evaluate(row.question, row.contexts, row.response)
        source = entities.AssessmentSource(source_type="CODE", source_id="trivet")
        return [
            entities.Feedback(
                name=score,
                value=value,
                rationale=reason(verdict, score),
                source=source,
                metadata={name: str(value) for name, value in details(verdict).items()},
            )
            for score, value in scores_of(verdict).items()
        ]

    return genai.scorer(trivet)


def merged(inputs: Any, outputs: Any, trace: Any = None) -> dict[str, Any]:
    """Return the inputs, the outputs and the retrieved documents of a run as one row."""
    spans = [] if trace is None else trace.search_spans(span_type="RETRIEVER")
    documents = [document for span in spans for document in span.outputs or ()]
    row: dict[str, Any] = {"contexts": documents} if documents else {}
    row |= inputs if isinstance(inputs, Mapping) else {"question": inputs}
    row |= outputs if isinstance(outputs, Mapping) else {"response": outputs}
    return row
