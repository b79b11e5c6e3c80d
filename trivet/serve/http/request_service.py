"""From a request's bytes to its verdicts and back to bytes, the same way for every route.

What takes long leaves the event loop; a client that hangs up frees its place.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from trivet.records import Evaluation, FailedEvaluation, RagExample, to_json_text
from trivet.serve.http.errors import RequestError, failure_error
from trivet.serve.http.metrics import STAGES, Counters
from trivet.serve.http.settings import ServerSettings
from trivet.serve.scheduling.batcher import Batcher
from trivet.serve.scheduling.predictions import Expired, Judged, StageSeconds

T = TypeVar("T")
P = ParamSpec("P")

# About where parsing begins to take longer than handing it to a thread.
_LARGE_BYTES = 65_536
# The answer about so many windows is as large.
_LARGE_WINDOWS = 32

_NO_TIME = StageSeconds(tokenize=0.0, queue=0.0, infer=0.0, finish=0.0)


class Judging:
    """Reads requests, has them judged, writes answers."""

    def __init__(self, batcher: Batcher, counters: Counters, settings: ServerSettings) -> None:
        """Keep who judges, who counts, and the limits."""
        self._batcher = batcher
        self._counters = counters
        self._settings = settings

    async def read(self, request: Request, parse: Callable[[bytes], T]) -> T:
        """Read a request's body.

        Args:
            request: The request.
            parse: Makes of the bytes what is asked; called away from the event loop where there are
                many.

        Raises:
            RequestError: It is not what it must be.
            Overloaded: There is no room for it, as ``Batcher.check_room``; ``Draining`` likewise.
        """
        self._batcher.check_room()  # a refusal should not cost the reading
        raw = await request.body()
        return await _aside(len(raw) > _LARGE_BYTES, parse, raw)

    def check_number(self, examples: int) -> None:
        """Refuse too many examples; ``judge`` does it too, but by then they are made.

        Args:
            examples: How many it has.

        Raises:
            RequestError: They are more than ``max_examples``.
        """
        most = self._settings.max_examples
        if examples > most:
            raise RequestError(
                "too_long",
                f"examples: {examples} are more than max_examples ({most}); send several requests",
            )

    async def judge(
        self,
        request: Request,
        examples: Sequence[RagExample],
        timeout_ms: float | None,
        *,
        allow_empty_contexts: bool = False,
    ) -> Judged:
        """Judge a request's examples, unless its client hangs up meanwhile.

        Args:
            request: The request, its body read.
            examples: What it asks.
            timeout_ms: How long it may take in all, from its headers to the verdicts.
            allow_empty_contexts: As in ``Evaluator.evaluate``.

        Returns:
            One result for each example, in order.

        Raises:
            RequestError: There are too many examples, the time-out is too long, or nobody waits
                for the answer any more, or it did not come in time.
            Overloaded: As ``Batcher.judge``; ``Draining`` likewise.
        """
        self.check_number(len(examples))
        whole_ms = self._whole_ms(timeout_ms)
        long = {n: self._too_long(example) for n, example in enumerate(examples)}
        asked = [example for n, example in enumerate(examples) if long[n] is None]
        judged = Judged((), _NO_TIME, 0)
        if asked:
            # Reading it took its share.
            rest_seconds = whole_ms / 1000 - (time.monotonic() - request.state.began)
            try:
                judged = await _unless_gone(
                    request,
                    self._batcher.judge(
                        asked,
                        timeout_seconds=max(0.0, rest_seconds),
                        allow_empty_contexts=allow_empty_contexts,
                    ),
                )
            except Expired as error:
                raise RequestError(
                    "deadline", f"not answered within timeout_ms ({whole_ms:g})"
                ) from error
        results = iter(judged.results)
        whole = tuple(long[n] or next(results) for n in range(len(examples)))
        judged = dataclasses.replace(judged, results=whole)
        self._counters.judged(judged)
        request.state.judged = judged  # for the log and for telemetry
        return judged

    async def judge_one(
        self,
        request: Request,
        example: RagExample,
        timeout_ms: float | None,
        *,
        allow_empty_contexts: bool = False,
    ) -> tuple[Judged, Evaluation]:
        """Judge a request's only example; arguments and errors as in ``judge``.

        Raises:
            RequestError: Also where the example cannot be judged.
        """
        judged = await self.judge(
            request, [example], timeout_ms, allow_empty_contexts=allow_empty_contexts
        )
        (result,) = judged.results
        if isinstance(result, FailedEvaluation):
            raise failure_error(result)
        return judged, result

    async def answer(self, judged: Judged, fields: Callable[[], dict[str, Any]]) -> Response:
        """Write an answer.

        Args:
            judged: What it is about; its times go into the headers.
            fields: Makes the answer.

        Raises:
            RequestError: A number in it is not finite.
        """
        text = await self.write(judged, lambda: to_json_text(fields()))
        return Response(text, media_type="application/json", headers=timing_header(judged.seconds))

    async def write(self, judged: Judged, make: Callable[[], T]) -> T:
        """Return what ``make`` makes of verdicts, away from the event loop where there is much.

        Raises:
            RequestError: A number in it is not finite.
        """
        try:
            return await _aside(judged.windows > _LARGE_WINDOWS, make)
        except ValueError as error:
            raise RequestError(
                "non_finite", "the engine answered with a number that is not finite"
            ) from error

    def _whole_ms(self, timeout_ms: float | None) -> float:
        """Return how long a request may take."""
        most = self._settings.max_timeout_ms
        if timeout_ms is not None and timeout_ms > most:
            raise RequestError(
                "validation",
                f"timeout_ms: {timeout_ms:g} is more than max_timeout_ms ({most:g})",
            )
        return timeout_ms or self._settings.default_timeout_ms or most

    def _too_long(self, example: RagExample) -> FailedEvaluation | None:
        """Return why an example is refused for its size, before a tokenizer sees it."""
        settings = self._settings
        # First: naming each of half a million contexts would hold up the event loop.
        if len(example.contexts) > settings.max_contexts:
            return FailedEvaluation(
                example.id,
                "too_long",
                f"contexts: {len(example.contexts)} are more than max_contexts "
                f"({settings.max_contexts}); send the best ones",
            )
        texts = {"question": example.question, "response": example.response}
        texts |= {f"contexts[{number}]": text for number, text in enumerate(example.contexts)}
        for name, text in texts.items():
            if len(text) > settings.max_characters:
                return FailedEvaluation(
                    example.id,
                    "too_long",
                    f"{name}: {len(text)} characters are more than max_characters "
                    f"({settings.max_characters}); split it",
                )
        return None


def timing_header(seconds: StageSeconds) -> dict[str, str]:
    """Return where a request's time went, in milliseconds, as browsers read it."""
    stages = (f"{stage};dur={1000 * getattr(seconds, stage):.2f}" for stage in STAGES)
    return {"Server-Timing": ", ".join(stages)}


async def _aside(large: bool, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Do large work in a thread: the event loop has others to serve."""
    return await asyncio.to_thread(work, *args, **named) if large else work(*args, **named)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return what ``work`` returns; cancel it as soon as the client hangs up."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RequestError("client_gone", "the client hung up")
        return working.result()
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _hung_up(request: Request) -> None:
    """Return when the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
