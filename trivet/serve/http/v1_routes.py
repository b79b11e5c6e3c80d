"""``/v1``: verdicts on one example or several, relevance before an answer, what answers here."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import trivet
from trivet.evaluation.evaluator import Evaluator
from trivet.records import RagExample, to_json_text
from trivet.serve.http.parsing import parser
from trivet.serve.http.request_models import (
    EVALUATE,
    EvaluateMany,
    RelevanceBody,
    context_ids,
    texts,
)
from trivet.serve.http.request_service import Judging
from trivet.serve.http.response_models import (
    BackendAnswer,
    BundleAnswer,
    CalibrationAnswer,
    InfoAnswer,
    LimitsAnswer,
    relevance_fields,
    result_fields,
    verdict_fields,
)
from trivet.serve.http.settings import ServerSettings


def v1_routes(judging: Judging, info: InfoAnswer) -> list[Route]:
    """Return the routes of ``/v1``.

    Args:
        judging: Who judges.
        info: What ``/v1/info`` says.
    """
    described = to_json_text(info.model_dump(mode="json"))
    read_evaluate, read_relevance = parser(EVALUATE), parser(RelevanceBody)

    async def evaluate(request: Request) -> Response:
        body = await judging.read(request, read_evaluate)
        if isinstance(body, EvaluateMany):
            return await _evaluate_many(judging, request, body)
        judged, verdict = await judging.judge_one(
            request,
            body.example(),
            body.timeout_ms,
            allow_empty_contexts=body.allow_empty_contexts,
        )
        return await judging.answer(
            judged, lambda: verdict_fields(verdict, context_ids(body.contexts))
        )

    async def relevance(request: Request) -> Response:
        body = await judging.read(request, read_relevance)
        example = RagExample(body.question, texts(body.contexts), "", body.id)
        judged, verdict = await judging.judge_one(request, example, body.timeout_ms)
        return await judging.answer(
            judged, lambda: relevance_fields(verdict, context_ids(body.contexts))
        )

    async def about(request: Request) -> Response:
        return Response(described, media_type="application/json")

    return [
        Route("/v1/evaluate", evaluate, methods=["POST"]),
        Route("/v1/relevance", relevance, methods=["POST"]),
        Route("/v1/info", about, methods=["GET"]),
    ]


async def _evaluate_many(judging: Judging, request: Request, body: EvaluateMany) -> Response:
    judging.check_number(len(body.examples))
    judged = await judging.judge(
        request,
        [example.example() for example in body.examples],
        body.timeout_ms,
        allow_empty_contexts=body.allow_empty_contexts,
    )
    ids = [context_ids(example.contexts) for example in body.examples]
    return await judging.answer(
        judged, lambda: {"results": list(map(result_fields, judged.results, ids))}
    )


def describe(evaluator: Evaluator, settings: ServerSettings) -> InfoAnswer:
    """Return what ``/v1/info`` says: the bundle, the engine, the limits."""
    info = evaluator.bundle.info
    return InfoAnswer(
        version=trivet.__version__,
        bundle=BundleAnswer(
            name=info.name,
            package_version=info.package_version,
            encoder=info.encoder,
            heads=list(info.heads),
            faithfulness=info.faithfulness,
            window=info.window,
            thresholds=info.thresholds,
            calibration=CalibrationAnswer.of(info.calibration),
        ),
        backend=BackendAnswer(name=evaluator.backend_name, precision=evaluator.precision),
        limits=LimitsAnswer(
            max_body_bytes=settings.max_body_bytes,
            max_contexts=settings.max_contexts,
            max_characters=settings.max_characters,
            max_examples=settings.max_examples,
            max_requests=settings.max_requests,
            max_queued_windows=settings.max_queued_windows,
            default_timeout_ms=settings.default_timeout_ms or settings.max_timeout_ms,
            max_timeout_ms=settings.max_timeout_ms,
        ),
    )
