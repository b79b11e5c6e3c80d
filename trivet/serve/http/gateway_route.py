"""``POST /classify``: a detector for gateways, by the contract ``token_spans.v1``.

The contract is that of vLLM Semantic Router, whose answers have the form of Hugging Face's pipeline
for token classification: spans of the answer, counted in Unicode code points.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.postprocessing import with_support
from trivet.records import Evaluation, RagExample
from trivet.serve.http.request_models import ClassifyBody, parser, texts
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.settings import ServerSettings

_LABEL = "hallucinated"  # of a span without a category


def gateway_route(service: RequestService, evaluator: Evaluator, settings: ServerSettings) -> Route:
    """Return the route; its answers name the bundle as their model."""
    parse, model = parser(ClassifyBody), evaluator.bundle.info.name
    thresholds = evaluator.bundle.info.thresholds

    async def classify(request: Request) -> Response:
        body: ClassifyBody = await service.read(request, parse)
        with_support(thresholds, "answers")  # no spans would mean that all is supported
        contexts = texts(body.parameters.context)
        if len(contexts) == 1:
            contexts = passages(contexts[0], settings.max_contexts)
        example = RagExample(body.parameters.question, contexts, body.inputs)
        predictions, verdict = await service.evaluate_one(request, example, body.parameters)
        return await service.respond(predictions, lambda: _spans(verdict, body.inputs, model))

    return Route("/classify", classify, methods=["POST"])


def passages(text: str, most: int) -> tuple[str, ...]:
    """Cut a text at its blank lines into at most ``most`` passages; neighbours share one if needed.

    A text without any character but white space has none.
    """
    lines = itertools.groupby(text.splitlines(keepends=True), key=lambda line: bool(line.strip()))
    paragraphs = ["".join(group) for filled, group in lines if filled]
    size = max(1, math.ceil(len(paragraphs) / most))
    groups = (paragraphs[start : start + size] for start in range(0, len(paragraphs), size))
    return tuple("\n".join(group).rstrip("\r\n") for group in groups)


def _spans(verdict: Evaluation, answer: str, model: str) -> dict[str, Any]:
    """Return the fields of ``ClassifyAnswer``.

    The answer is always read whole. If the question was cut, ``truncated_at`` is the answer's
    length, so that the gateway takes the scan as partial.
    """
    spans = [
        {
            "start": span.start,
            "end": span.end,
            "label": span.category or _LABEL,
            "score": span.probability,
            "text": span.text,
        }
        for span in verdict.unsupported
    ]
    cut = {"truncated_at": len(answer)} if verdict.cut_question_tokens else {}
    return {"spans": spans, **cut, "model": model}
