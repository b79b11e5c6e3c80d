"""Provides a guardrail for any-guardrail, with the call of its LettuceDetect.

Example: ``TrivetGuardrail().validate(answer, context=passages, question=question).valid``
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

from trivet.integrations.judge import Judge, default_judge, details, import_tool, reason, score_of
from trivet.integrations.rows import example


def __getattr__(name: str) -> Any:
    if name == "TrivetGuardrail":
        return _guardrail()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _guardrail() -> Any:
    base: Any = import_tool("any_guardrail.base", "any-guardrail").Guardrail
    types = import_tool("any_guardrail.types", "any-guardrail")

    class TrivetGuardrail(base):
        """Finds what passages do not support in an answer."""

        def __init__(self, judge: Judge | None = None) -> None:
            self.judge = judge or default_judge()
            bundle = getattr(self.judge, "bundle", None)
            self.model_id = "trivet" if bundle is None else f"trivet/{bundle.info.name}"

        def validate(
            self, input_text: str, context: Sequence[Any] | str, question: str | None = None
        ) -> Any:
            """Return a ``GuardrailOutput``: risk is 1 - faithfulness, spans are of the answer.

            Args:
                input_text: Answer to check.
                context: Passages, or one.
                question: Question that it answers.

            Raises:
                ExampleError: The texts cannot be evaluated, or the answer is empty.
            """
            begun = time.perf_counter()
            one = example(question, context, input_text)
            verdict = self.judge.evaluate(one.question, one.contexts, one.response)
            risk = 1.0 - score_of(verdict, "faithfulness")
            valid = bool(verdict.adherent)
            spans = [
                types.SpanResult(start=s.start, end=s.end, text=s.text, score=s.probability)
                for s in verdict.unsupported
            ]
            found = types.CategoryResult(name="hallucination", triggered=not valid, score=risk)
            output = types.GuardrailOutput(
                valid=valid,
                explanation=reason(verdict, "faithfulness"),
                score=risk,
                categories=[found],
                spans=spans or None,
                extra=details(verdict),
            )
            self._stamp_usage(output, 1000.0 * (time.perf_counter() - begun))
            return output

    return TrivetGuardrail
