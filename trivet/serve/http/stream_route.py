"""``/v1/stream``: events on an answer that is still being written, as server-sent events.

A client sends the text so far; the server remembers nothing between requests, so that any server
can answer the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from trivet.errors import ExampleError
from trivet.evaluation.answer_stream import PendingSentence, SentenceReader
from trivet.evaluation.evaluator import Evaluator
from trivet.records import FailedEvaluation, to_json_text
from trivet.serve.http.errors import failure_error, request_error
from trivet.serve.http.request_models import StreamBody, context_ids, parser
from trivet.serve.http.request_service import RequestService, only
from trivet.serve.http.response_models import result_fields

logger = logging.getLogger(__name__)


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
            yield _event("verdict", result_fields(only(predictions), context_ids(body.contexts)))
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
