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

from fastapi import APIRouter, Request, Response
from starlette.types import Receive, Scope, Send

from trivet.errors import ExampleError
from trivet.evaluation.answer_stream import PendingSentence, SentenceReader
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.postprocessing import with_support
from trivet.records import Evaluation, FailedEvaluation, RagExample, to_json_text
from trivet.serve.http.request_errors import failure_error, request_error
from trivet.serve.http.request_models import (
    ClassifyBody,
    EvaluateBody,
    EvaluateMany,
    RelevanceBody,
    RequestOptions,
    StreamBody,
    context_ids,
    examples_of,
    names,
    texts,
)
from trivet.serve.http.request_service import RequestService, only
from trivet.serve.http.response_models import (
    ClassifyAnswer,
    InfoAnswer,
    ManyAnswer,
    RelevanceAnswer,
    Verdict,
)
from trivet.serve.http.routing import REFUSALS, add_get
from trivet.serve.http.server_settings import ServerSettings

logger = logging.getLogger(__name__)

_LABEL = "hallucinated"  # of a gateway's span without a category


def add_v1_routes(router: APIRouter, service: RequestService, info: InfoAnswer) -> None:
    """Add the routes of ``/v1``; ``info`` is the answer of ``/v1/info``."""
    info_text = to_json_text(info.model_dump(mode="json"))

    async def show_info(request: Request) -> Response:
        return Response(info_text, media_type="application/json")

    add_get(
        *(router, "/v1/info", show_info, "Describe the model, the backend and the limits."),
        response_model=InfoAnswer,
    )

    @router.post("/v1/evaluate", response_model=Verdict | ManyAnswer, responses=REFUSALS)
    async def evaluate(request: Request, body: EvaluateBody) -> Response:
        """Evaluate one example or several, or a conversation.

        Offsets count Unicode code points. In a request with several examples, a failed one has an
        error in its place, and the status is 200; a single failed example is refused. The last
        answer of a conversation is evaluated as one, with turns=all each as several.
        """
        examples = examples_of(body, service.check_number)
        predictions = await service.evaluate(request, examples, body)
        ids = [context_ids(example) for example in examples]
        if isinstance(body, EvaluateMany) or getattr(body, "turns", "last") == "all":
            return await service.respond(
                predictions, lambda: {"results": list(map(result_fields, predictions.results, ids))}
            )
        verdict = only(predictions)
        return await service.respond(predictions, lambda: result_fields(verdict, ids[0]))

    @router.post("/v1/relevance", response_model=RelevanceAnswer, responses=REFUSALS)
    async def relevance(request: Request, body: RelevanceBody) -> Response:
        """Evaluate the relevance of contexts before an answer is generated."""
        passages, named = texts(body.contexts), names(body.contexts)
        example = RagExample(body.question, passages, "", body.id, context_names=named)
        predictions, verdict = await service.evaluate_one(
            request, example, RequestOptions(timeout_ms=body.timeout_ms)
        )
        return await service.respond(
            predictions, lambda: relevance_fields(verdict, context_ids(example))
        )


def add_stream_route(router: APIRouter, service: RequestService, evaluator: Evaluator) -> None:
    """Add the route of the stream of events."""

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
        for sentence in sentences:
            predictions = await service.predict(request, [sentence.prepared], body)
            yield _event("sentence", sentence.event(only(predictions)).to_dict())
        if body.complete and body.verdict:
            whole = await asyncio.to_thread(reader.whole)
            predictions = await service.evaluate(request, [whole], body)
            yield _event("verdict", result_fields(only(predictions), context_ids(body.example())))
        yield _event("end", {"start": reader.start})

    @router.post("/v1/stream", response_class=EventStream, responses=REFUSALS)
    async def stream(request: Request, body: StreamBody) -> Response:
        """Judge the sentences of an answer while it is written.

        Send the text so far whenever there is more of it. The data of each event is JSON: sentence,
        one for each sentence that is complete, from start on; verdict, the answer of /v1/evaluate,
        if the text is complete; end, with the start for the next request; error, with the fields of
        a refusal, if it fails after the first event.
        """
        service.check_contexts(body.example())
        made = events(request, body)
        # A refusal before the first event is answered with its status.
        return EventStream(await anext(made), made)


class EventStream(Response):
    """Sends events as they come. Starlette's own would read the messages of ``request_service``."""

    media_type = "text/event-stream"

    def __init__(self, first: bytes, others: AsyncGenerator[bytes], status_code: int = 200) -> None:
        super().__init__(status_code=status_code, headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._first, self._others = first, others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
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


def add_gateway_route(
    router: APIRouter, service: RequestService, evaluator: Evaluator, settings: ServerSettings
) -> None:
    """Add the route for gateways; its answers name the bundle as their model."""
    model = evaluator.bundle.info.name
    thresholds = evaluator.bundle.info.thresholds

    @router.post("/classify", response_model=ClassifyAnswer, responses=REFUSALS)
    async def classify(request: Request, body: ClassifyBody) -> Response:
        """Return unsupported spans to a gateway, by the contract token_spans.v1.

        Offsets count Unicode code points of inputs. A context that is one text is cut into passages
        at its blank lines.
        """
        with_support(thresholds, "answers")  # no spans would mean that all is supported
        contexts = texts(body.parameters.context)
        if len(contexts) == 1:
            contexts = passages(contexts[0], settings.max_contexts)
        example = RagExample(body.parameters.question, contexts, body.inputs)
        predictions, verdict = await service.evaluate_one(request, example, body.parameters)
        return await service.respond(predictions, lambda: _spans(verdict, body.inputs, model))


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
