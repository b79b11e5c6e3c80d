"""LettuceDetect's call, answered by Trivet: a detector that takes the place of theirs.

    from trivet.integrations.lettucedetect import HallucinationDetector

    HallucinationDetector().predict(context=[...], question=..., answer=..., output_format="spans")

Needs no library. Two things differ: a token is supported where *some* window supports it, and what
is marked is below the bundle's own threshold, not below one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from trivet.evaluation.lettucedetect import lettucedetect_spans
from trivet.integrations.judge import Judge, default_judge
from trivet.integrations.rows import example


class HallucinationDetector:
    """Finds what the contexts do not support.

    Attributes:
        judge: Who judges.
    """

    def __init__(self, judge: Judge | None = None) -> None:
        """Choose the judge; ``None`` is the embedded bundle."""
        self.judge = judge or default_judge()

    def predict(
        self,
        context: Sequence[str],
        answer: str,
        question: str | None = None,
        output_format: Literal["tokens", "spans"] = "tokens",
        min_confidence: float = 0.0,
    ) -> list[dict[str, Any]]:
        """Return what nothing in the contexts supports.

        Args:
            context: The passages.
            answer: The response.
            question: What was asked, if anything.
            output_format: ``spans``: ``start``, ``end`` (characters of the answer), ``confidence``,
                ``text``. ``tokens``: each token of the answer, with ``pred`` (1 unsupported) and
                ``prob``, the probability that it is unsupported.
            min_confidence: Spans below it are left out.

        Raises:
            ExampleError: The example cannot be judged.
            ValueError: There is no such format; or the judge cannot give tokens, which an
                ``Evaluator`` in this process can.
        """
        if output_format not in ("tokens", "spans"):
            raise ValueError(f"no output_format {output_format!r}; use 'tokens' or 'spans'")
        if not 0.0 <= min_confidence <= 1.0:
            raise ValueError(f"min_confidence must be in [0, 1], got {min_confidence}")
        asked = example(question, list(context), answer)
        if output_format == "tokens":
            return self._tokens(asked.question, asked.contexts, asked.response)
        verdict = self.judge.evaluate(asked.question, asked.contexts, asked.response)
        return lettucedetect_spans(verdict, least=min_confidence)

    def _tokens(
        self, question: str, contexts: Sequence[str], response: str
    ) -> list[dict[str, Any]]:
        read = getattr(self.judge, "evaluate_tokens", None)
        if read is None:
            raise ValueError(
                f"{type(self.judge).__name__} gives no tokens; use output_format='spans', or a "
                "trivet.Evaluator"
            )
        return [
            {
                "token": token.text,
                "pred": int(not token.supported),
                "prob": 1.0 - token.support,
            }
            for token in read(question, contexts, response)
        ]
