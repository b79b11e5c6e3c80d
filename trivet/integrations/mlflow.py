"""MLflow: a scorer for ``mlflow.genai.evaluate``.

from trivet.integrations.mlflow import scorer

mlflow.genai.evaluate(data=rows, scorers=[scorer()])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.integrations.gathering import Gathering
from trivet.integrations.judge import Judge, details, foreign, reason, scores_of
from trivet.integrations.rows import read_row


def scorer(judge: Judge | None = None, mapping: Mapping[str, str] | None = None) -> Any:
    """Return a ``Scorer`` that gives one ``Feedback`` for each score, of one pass.

    Question, contexts and response are looked for in ``inputs`` and ``outputs``; outputs that are
    a string are the response, and contexts that stand in neither are taken from the trace's
    retriever spans.

    Args:
        judge: Who judges; ``None`` is the embedded bundle.
        mapping: Other names of the fields, such as ``{"question": "prompt"}``.

    Raises:
        MissingLibraryError: MLflow is not installed.
    """
    genai = foreign("mlflow.genai", "mlflow")
    entities = foreign("mlflow.entities", "mlflow")
    gathering = Gathering(judge)

    def trivet(inputs: Any, outputs: Any, trace: Any = None) -> list[Any]:
        row = read_row(merged(inputs, outputs, trace), mapping)
        verdict = gathering.ask(row.question, row.contexts, row.response)
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
    """Return a run as one row."""
    row: dict[str, Any] = {} if trace is None else _retrieved(trace)
    row |= inputs if isinstance(inputs, Mapping) else {"question": inputs}
    row |= outputs if isinstance(outputs, Mapping) else {"response": outputs}
    return row


def _retrieved(trace: Any) -> dict[str, Any]:
    """Return the documents of a trace's retriever spans, in order."""
    spans = trace.search_spans(span_type="RETRIEVER")
    documents = [document for span in spans for document in span.outputs or ()]
    return {"contexts": documents} if documents else {}
