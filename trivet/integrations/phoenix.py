"""Phoenix: an evaluator for ``evaluate_dataframe`` and for single records.

from trivet.integrations.phoenix import evaluator

evaluate_dataframe(frame, [evaluator()])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.integrations.gathering import Gathering
from trivet.integrations.judge import Judge, details, foreign, reason, scores_of


def evaluator(judge: Judge | None = None, mapping: Mapping[str, Any] | None = None) -> Any:
    """Return an ``Evaluator`` that gives one ``Score`` for each of ours.

    A record has ``question``, ``contexts`` and ``response``. With ``async_evaluate_dataframe`` what
    its tasks ask at a time is judged together.

    Args:
        judge: Who judges; ``None`` is the embedded bundle.
        mapping: Where the record has these fields, as Phoenix's ``bind_evaluator`` takes it:
            ``{"question": "input.query"}``.

    Raises:
        MissingLibraryError: Phoenix's evaluators are not installed.
    """
    library = foreign("phoenix.evals", "arize-phoenix-evals")
    base: Any = library.Evaluator
    pydantic = foreign("pydantic", "pydantic")
    gathering = Gathering(judge)
    schema = pydantic.create_model("TrivetInput", question=str, contexts=list[Any], response=str)

    class TrivetEvaluator(base):
        """All scores of one verdict."""

        def __init__(self) -> None:
            super().__init__(name="trivet", kind="code", input_schema=schema)

        def _evaluate(self, eval_input: dict[str, Any]) -> list[Any]:
            return self._scores(gathering.ask(**eval_input))

        async def _async_evaluate(self, eval_input: dict[str, Any]) -> list[Any]:
            return self._scores(await gathering.ask_async(**eval_input))

        def _scores(self, verdict: Any) -> list[Any]:
            return [
                library.Score(
                    name=score,
                    score=value,
                    explanation=reason(verdict, score),
                    metadata=details(verdict),
                    kind="code",
                )
                for score, value in scores_of(verdict).items()
            ]

    made = TrivetEvaluator()
    return library.bind_evaluator(evaluator=made, input_mapping=dict(mapping)) if mapping else made
