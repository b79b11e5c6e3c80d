"""A verdict in LettuceDetect's shape, for its call (`trivet.integrations`) and its HTTP route."""

from __future__ import annotations

from typing import Any

from trivet.records import Evaluation


def lettucedetect_spans(
    verdict: Evaluation, probability: str = "confidence", least: float = 0.0
) -> list[dict[str, Any]]:
    """Return what nothing in the contexts supports.

    Args:
        verdict: The verdict.
        probability: What the probability of being unsupported is called: ``confidence`` in their
            call, ``hallucination_score`` over HTTP.
        least: Spans below this probability are left out.

    Returns:
        For each span ``start``, ``end`` (characters of the answer), ``text`` and its probability.
    """
    return [
        {"start": span.start, "end": span.end, probability: span.probability, "text": span.text}
        for span in verdict.unsupported
        if span.probability >= least
    ]
