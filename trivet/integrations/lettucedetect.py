"""Provides a replacement for LettuceDetect's detector; needs no library.

A token is supported if any window supports it. The weak words of unsupported sentences are marked,
by the bundle's thresholds, not 0.5.
Example: ``HallucinationDetector().predict(context=contexts, answer=response)``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from trivet.integrations.judge import Judge, default_judge, example
from trivet.verdict_json import lettucedetect_spans


class HallucinationDetector:
    """Finds the parts of an answer that the contexts do not support."""

    def __init__(self, judge: Judge | None = None) -> None:
        self.judge = judge or default_judge()

    def predict(
        self,
        context: Sequence[str],
        answer: str,
        question: str | None = None,
        output_format: Literal["tokens", "spans"] = "tokens",
        min_confidence: float = 0.0,
    ) -> list[dict[str, Any]]:
        """Return the unsupported spans, or all tokens, of an answer.

        Args:
            context: Passages.
            answer: Response.
            question: Question, if any.
            output_format: ``spans`` for ``start``, ``end`` (characters of the answer),
                ``confidence`` and ``text`` of unsupported spans; ``tokens`` for ``token``, ``pred``
                (1 if unsupported) and ``prob`` (of being unsupported) of every token.
            min_confidence: Least confidence of a returned span, in [0, 1].

        Raises:
            ExampleError: The example cannot be evaluated.
            ValueError: An argument is invalid, or the judge gives no tokens (a client).
        """
        if output_format not in ("tokens", "spans"):
            raise ValueError(f"no output_format {output_format!r}; use 'tokens' or 'spans'")
        if not 0.0 <= min_confidence <= 1.0:
            raise ValueError(f"min_confidence must be in [0, 1], got {min_confidence}")
        asked = example(question, list(context), answer)
        texts = (asked.question, asked.contexts, asked.response)
        if output_format == "spans":
            return lettucedetect_spans(self.judge.evaluate(*texts), least=min_confidence)
        tokens_of = getattr(self.judge, "evaluate_tokens", None)
        if tokens_of is None:
            raise ValueError(
                f"{type(self.judge).__name__} gives no tokens; use output_format='spans', or a "
                "trivet.Evaluator"
            )
        return [
            {"token": token.text, "pred": int(not token.supported), "prob": 1.0 - token.support}
            for token in tokens_of(*texts)
        ]
