"""From a request's bytes to its verdicts and back to bytes, the same way for every route."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.evaluation.window_queue import Expired
from trivet.records import Evaluation, FailedEvaluation, RagExample, to_json_text
from trivet.serve.http.batcher import Batcher, Predictions, StageSeconds
from trivet.serve.http.prometheus_metrics import STAGES, Metrics
from trivet.serve.http.request_errors import RequestError, failure_error
from trivet.serve.http.request_models import RequestOptions
from trivet.serve.http.server_settings import ServerSettings

T = TypeVar("T")

# Above these sizes, parsing and writing leave the event loop for a thread.
_LARGE_BYTES = 65_536
_LARGE_WINDOWS = 32

_NO_TIME = StageSeconds(tokenize=0.0, queue=0.0, infer=0.0, finish=0.0)


class RequestService:
    """Reads requests, has them evaluated, and writes responses."""

    def __init__(self, batcher: Batcher, metrics: Metrics, settings: ServerSettings) -> None:
        self._batcher = batcher
        self._metrics = metrics
        self._settings = settings

    async def read(self, request: Request, parse: Callable[[bytes], T]) -> T:
        """Return a request's parsed body, unless the queue is full or the server stops."""
        self._batcher.check_capacity()
        raw = await request.body()
        return await asyncio.to_thread(parse, raw) if len(raw) > _LARGE_BYTES else parse(raw)

    def check_number(self, examples: int) -> None:
        """Raise ``RequestError`` if a request has more than ``max_examples`` examples."""
        most = self._settings.max_examples
        if examples > most:
            raise RequestError(
                "too_long",
                f"examples: {examples} are more than max_examples ({most}); send several requests",
            )

    async def evaluate(
        self,
        request: Request,
        examples: Sequence[RagExample | PreprocessedExample],
        options: RequestOptions,
    ) -> Predictions:
        """Return one result for each example of a request, in order.

        The timeout counts from the request's headers.

        Raises:
            RequestError: The timeout is too long or has passed, or the client hung up.
            Overloaded: The queue is full.
            Draining: The server stops.
        """
        refused = [self._refusal(example) for example in examples]
        accepted = [
            example for example, failed in zip(examples, refused, strict=True) if failed is None
        ]
        predictions = Predictions((), _NO_TIME, 0)
        if accepted:
            predictions = await self.predict(request, accepted, options)
        if len(accepted) < len(examples):
            done = iter(predictions.results)
            whole = tuple(failed or next(done) for failed in refused)
            predictions = dataclasses.replace(predictions, results=whole)
        self._metrics.evaluated(predictions)
        request.state.predictions = predictions  # for the log and for telemetry
        return predictions

    async def predict(
        self,
        request: Request,
        examples: Sequence[RagExample | PreprocessedExample],
        options: RequestOptions,
    ) -> Predictions:
        """Do as ``evaluate``, without a check of the contexts and without metrics."""
        timeout_ms, max_ms = options.timeout_ms, self._settings.max_timeout_ms
        if timeout_ms is not None and timeout_ms > max_ms:
            message = f"timeout_ms: {timeout_ms:g} is more than max_timeout_ms ({max_ms:g})"
            raise RequestError("validation", message)
        whole_ms = timeout_ms or self._settings.default_timeout_ms or max_ms
        left_seconds = whole_ms / 1000 - (time.monotonic() - request.state.began)
        work = self._batcher.evaluate(
            examples,
            timeout_seconds=max(0.0, left_seconds),
            allow_empty_contexts=options.allow_empty_contexts,
            threshold=options.threshold,
            strict=options.strict,
        )
        try:
            return await _unless_gone(request, asyncio.ensure_future(work))
        except Expired as error:
            message = f"not answered within timeout_ms ({whole_ms:g})"
            raise RequestError("deadline", message) from error

    async def evaluate_one(
        self,
        request: Request,
        example: RagExample,
        options: RequestOptions,
    ) -> tuple[Predictions, Evaluation]:
        """Evaluate a request's only example, as ``evaluate``; its failure is an error, too."""
        predictions = await self.evaluate(request, [example], options)
        return predictions, only(predictions)

    async def respond(
        self, predictions: Predictions, fields: Callable[[], dict[str, Any]]
    ) -> Response:
        """Return a response in JSON, with the times of ``predictions``; errors as in ``write``."""
        text = await self.write(predictions, lambda: to_json_text(fields()))
        return Response(text, 200, timing_header(predictions.seconds), "application/json")

    async def write(self, predictions: Predictions, make: Callable[[], T]) -> T:
        """Return the result of ``make``, called in a thread where there are many windows.

        A number that is not finite raises ``RequestError``.
        """
        try:
            large = predictions.windows > _LARGE_WINDOWS
            return await asyncio.to_thread(make) if large else make()
        except ValueError as error:
            message = "the backend returned a number that is not finite"
            raise RequestError("non_finite", message) from error

    def check_contexts(self, example: RagExample) -> None:
        """Raise ``RequestError`` if an example has more than ``max_contexts`` contexts."""
        if failed := self._refusal(example):
            raise failure_error(failed)

    def _refusal(self, example: RagExample | PreprocessedExample) -> FailedEvaluation | None:
        """Return a failure if an example has too many contexts; the evaluator has other limits."""
        if not isinstance(example, RagExample):
            return None
        number, most = len(example.contexts), self._settings.max_contexts
        if number <= most:
            return None
        message = f"contexts: {number} are more than max_contexts ({most}); send the best ones"
        return FailedEvaluation(example.id, "too_long", message)


def only(predictions: Predictions) -> Evaluation:
    """Return the verdict on a request's only example; its failure is a ``RequestError``."""
    (result,) = predictions.results
    if isinstance(result, FailedEvaluation):
        raise failure_error(result)
    return result


def timing_header(seconds: StageSeconds) -> dict[str, str]:
    """Return the header that tells the milliseconds of each stage."""
    stages = [f"{stage};dur={1000 * getattr(seconds, stage):.2f}" for stage in STAGES]
    return {"Server-Timing": ", ".join(stages)}


async def _unless_gone(request: Request, work: asyncio.Future[T]) -> T:
    """Return the result of ``work``; cancel it when the client hangs up."""
    gone = asyncio.ensure_future(_disconnected(request))
    both: tuple[asyncio.Future[Any], ...] = (work, gone)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise RequestError("client_gone", "the client hung up")
        return work.result()
    finally:
        for future in both:
            future.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    """Return when the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
