"""Routes that evaluate: ``/v1``, its stream of events, and a detector for gateways.

A client of ``/v1/stream`` sends the text so far; the server remembers nothing between requests, so
that any server can answer the next one. ``POST /classify`` keeps the contract ``token_spans.v1`` of
vLLM Semantic Router, whose answers have the form of Hugging Face's pipeline for token
classification: spans of the answer, counted in Unicode code points.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from trivet.errors import ExampleError
from trivet.evaluation.answer_stream import PendingSentence, SentenceReader
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.postprocessing import with_support
from trivet.records import Evaluation, FailedEvaluation, RagExample, to_json_text
from trivet.serve.http.errors import failure_error, request_error
from trivet.serve.http.health import constant_route
from trivet.serve.http.request_models import (
    ClassifyBody,
    EvaluateBody,
    EvaluateMany,
    EvaluateMessages,
    RelevanceBody,
    RequestOptions,
    StreamBody,
    context_ids,
    names,
    parser,
    texts,
)
from trivet.serve.http.request_service import RequestService, only
from trivet.serve.http.response_models import InfoAnswer, RelevanceAnswer
from trivet.serve.http.settings import ServerSettings

logger = logging.getLogger(__name__)

_LABEL = "hallucinated"  # of a gateway's span without a category


def v1_routes(service: RequestService, info: InfoAnswer) -> list[Route]:
    """Return the routes of ``/v1``; ``info`` is the answer of ``/v1/info``."""
    parse_evaluate, parse_relevance = parser(EvaluateBody), parser(RelevanceBody)

    async def evaluate(request: Request) -> Response:
        body = await service.read(request, parse_evaluate)
        many = isinstance(body, EvaluateMany)
        if isinstance(body, EvaluateMany):
            service.check_number(len(body.examples))
            examples = [example.example() for example in body.examples]
        elif isinstance(body, EvaluateMessages):
            many = body.turns == "all"
            try:
                examples = body.examples()
            except ExampleError as error:
                raise failure_error(FailedEvaluation.of(error, body.id)) from None
            service.check_number(len(examples))
        else:
            examples = [body.example()]
        predictions = await service.evaluate(request, examples, body)
        ids = [context_ids(example) for example in examples]
        if many:
            return await service.respond(
                predictions, lambda: {"results": list(map(result_fields, predictions.results, ids))}
            )
        verdict = only(predictions)
        return await service.respond(predictions, lambda: result_fields(verdict, ids[0]))

    async def relevance(request: Request) -> Response:
        body = await service.read(request, parse_relevance)
        passages, named = texts(body.contexts), names(body.contexts)
        example = RagExample(body.question, passages, "", body.id, context_names=named)
        predictions, verdict = await service.evaluate_one(
            request, example, RequestOptions(timeout_ms=body.timeout_ms)
        )
        return await service.respond(
            predictions, lambda: relevance_fields(verdict, context_ids(example))
        )

    return [
        Route("/v1/evaluate", evaluate, methods=["POST"]),
        Route("/v1/relevance", relevance, methods=["POST"]),
        constant_route("/v1/info", info.model_dump(mode="json")),
    ]


def stream_route(service: RequestService, evaluator: Evaluator) -> Route:
    """Return the route."""
    parse = parser(StreamBody)

    def read(body: StreamBody) -> tuple[SentenceReader, list[PendingSentence]]:
        """Tokenize a request and prepare its sentences."""
        reader = SentenceReader(
            evaluator.preprocessor, body.example(), body.windows, body.allow_empty_contexts
        )
        reader.skip(body.response[: body.start])
        sentences = reader.feed(body.response[body.start :])
        return reader, sentences + (reader.flush() if body.complete else [])

    async def events(request: Request, body: StreamBody) -> AsyncGenerator[bytes]:
        try:
            reader, sentences = await asyncio.to_thread(read, body)
        except ExampleError as error:
            raise failure_error(FailedEvaluation.of(error, body.id)) from None
        for each in sentences:
            predictions = await service.predict(request, [each.prepared], body)
            yield _event("sentence", each.event(only(predictions)).to_dict())
        if body.complete and body.verdict:
            whole = await asyncio.to_thread(reader.whole)
            predictions = await service.evaluate(request, [whole], body)
            yield _event("verdict", result_fields(only(predictions), context_ids(body.example())))
        yield _event("end", {"start": reader.start})

    async def stream(request: Request) -> Response:
        body = await service.read(request, parse)
        service.check_contexts(body.example())
        made = events(request, body)
        # What is refused before the first event is answered with its status.
        return _EventStream(await anext(made), made)

    return Route("/v1/stream", stream, methods=["POST"])


class _EventStream(Response):
    """Sends events as they come. Starlette's own would read the messages of ``request_service``."""

    def __init__(self, first: bytes, others: AsyncGenerator[bytes]) -> None:
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._first, self._others = first, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with contextlib.aclosing(self._events(scope)) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _events(self, scope: Scope) -> AsyncGenerator[bytes]:
        yield self._first
        try:
            async for event in self._others:
                yield event
        except Exception as error:
            refusal = request_error(error)
            if refusal.error_type == "client_gone":
                return
            if refusal.error_type == "internal":
                logger.error("request %s failed", scope["state"]["request_id"], exc_info=error)
            fields = {"error": refusal.message, "error_type": refusal.error_type}
            yield _event("error", {**fields, "request_id": scope["state"]["request_id"]})
        finally:
            await self._others.aclose()


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    """Return one event; JSON has no line breaks, which would end it."""
    return f"event: {kind}\ndata: {to_json_text(fields)}\n\n".encode()


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


def result_fields(
    result: Evaluation | FailedEvaluation, ids: Sequence[str | None] | None = None
) -> dict[str, Any]:
    """Return a verdict with the ids of its contexts, or the error of a failed example."""
    if isinstance(result, FailedEvaluation):
        return {"id": result.id, "error": {"code": result.code, "message": result.message}}
    fields = result.to_dict()
    return fields if ids is None else {**fields, "context_ids": list(ids)}


def relevance_fields(
    verdict: Evaluation, ids: Sequence[str | None] | None = None
) -> dict[str, Any]:
    """Return the fields of ``RelevanceAnswer``; a number that is not finite is a ``ValueError``."""
    answer = RelevanceAnswer.model_validate(verdict, strict=False, from_attributes=True)
    fields = answer.model_dump(exclude={"context_ids"})
    return fields if ids is None else {**fields, "context_ids": list(ids)}
