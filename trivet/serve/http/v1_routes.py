"""``/v1``: verdicts, relevance before an answer is generated, and a description of the server."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trivet.errors import ExampleError
from trivet.records import FailedEvaluation, RagExample
from trivet.serve.http.errors import failure_error
from trivet.serve.http.health import constant_route
from trivet.serve.http.request_models import (
    EvaluateBody,
    EvaluateMany,
    EvaluateMessages,
    LettuceDetectBody,
    RelevanceBody,
    RequestOptions,
    context_ids,
    names,
    parser,
    texts,
)
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.response_models import InfoAnswer, relevance_fields, result_fields
from trivet.verdict_json import lettucedetect_spans


def v1_routes(service: RequestService, info: InfoAnswer) -> list[Route]:
    """Return the routes of ``/v1``; ``info`` is the answer of ``/v1/info``."""
    parse_evaluate, parse_relevance = parser(EvaluateBody), parser(RelevanceBody)
    parse_lettucedetect = parser(LettuceDetectBody)

    async def evaluate(request: Request) -> Response:
        body = await service.read(request, parse_evaluate)
        if isinstance(body, EvaluateMessages):
            return await conversation(request, body)
        if not isinstance(body, EvaluateMany):
            predictions, verdict = await service.evaluate_one(request, body.example(), body)
            return await service.respond(
                predictions, lambda: result_fields(verdict, context_ids(body.contexts))
            )
        service.check_number(len(body.examples))
        examples = [example.example() for example in body.examples]
        predictions = await service.evaluate(request, examples, body)
        ids = [context_ids(example.contexts) for example in body.examples]
        return await service.respond(
            predictions, lambda: {"results": list(map(result_fields, predictions.results, ids))}
        )

    async def conversation(request: Request, body: EvaluateMessages) -> Response:
        try:
            examples = body.examples()
        except ExampleError as error:
            raise failure_error(FailedEvaluation.of(error, body.id)) from None
        service.check_number(len(examples))
        ids = [[own.id or own.title for own in each.context_names] or None for each in examples]
        if body.turns == "last":
            predictions, verdict = await service.evaluate_one(request, examples[0], body)
            return await service.respond(predictions, lambda: result_fields(verdict, ids[0]))
        predictions = await service.evaluate(request, examples, body)
        return await service.respond(
            predictions, lambda: {"results": list(map(result_fields, predictions.results, ids))}
        )

    async def relevance(request: Request) -> Response:
        body = await service.read(request, parse_relevance)
        passages, named = texts(body.contexts), names(body.contexts)
        example = RagExample(body.question, passages, "", body.id, context_names=named)
        predictions, verdict = await service.evaluate_one(request, example, _timed(body))
        return await service.respond(
            predictions, lambda: relevance_fields(verdict, context_ids(body.contexts))
        )

    async def lettucedetect(request: Request) -> Response:
        body = await service.read(request, parse_lettucedetect)
        example = RagExample(body.question, texts(body.contexts), body.answer)
        predictions, verdict = await service.evaluate_one(request, example, _timed(body))
        return await service.respond(
            predictions,
            lambda: {"predictions": lettucedetect_spans(verdict, "hallucination_score")},
        )

    return [
        Route("/v1/evaluate", evaluate, methods=["POST"]),
        Route("/v1/relevance", relevance, methods=["POST"]),
        Route("/v1/lettucedetect/spans", lettucedetect, methods=["POST"]),
        constant_route("/v1/info", info.model_dump(mode="json")),
    ]


def _timed(body: RelevanceBody | LettuceDetectBody) -> RequestOptions:
    return RequestOptions(timeout_ms=body.timeout_ms)
