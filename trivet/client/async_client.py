"""``Client`` for event loops: the same calls, to be awaited."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import httpx2

from trivet.client.answers import (
    Relevance,
    Result,
    failed,
    read_object,
    read_relevance,
    read_results,
    read_verdict,
    refused,
    unanswered,
)
from trivet.client.retrying import Tries
from trivet.client.sending import (
    MOST_BYTES,
    Blocks,
    Sendable,
    Slot,
    as_passages,
    block_body,
    sendable,
    sendable_question,
    single_body,
)
from trivet.client.settings import ClientSettings
from trivet.records import (
    BackendError,
    Evaluation,
    ExampleError,
    FailedEvaluation,
    RagExample,
    WindowError,
)

Given: TypeAlias = RagExample | FailedEvaluation


class AsyncClient:
    """A server's judge for one event loop; close it in the end.

    Attributes:
        settings: What it was made with.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        timeout_seconds: float = 60.0,
        retries: int = 4,
        connections: int = 8,
        *,
        examples_per_request: int = 16,
        most_bytes: int = MOST_BYTES,
        ca_file: Path | str | None = None,
    ) -> None:
        """Say where the server is; nothing is sent yet. Arguments and errors as in ``Client``."""
        self.settings = ClientSettings(
            url,
            key,
            timeout_seconds,
            retries,
            connections,
            examples_per_request,
            most_bytes,
            ca_file,
        )
        self._http = httpx2.AsyncClient(**self.settings.pool())

    async def evaluate(
        self,
        question: str,
        contexts: Sequence[str],
        response: str,
        *,
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        allow_empty_contexts: bool = False,
    ) -> Evaluation:
        """Judge one example; arguments, result and errors as in ``Client.evaluate``."""
        example = RagExample(question, as_passages(contexts), response, id)
        asked = sendable(example, self.settings.most_bytes)
        body = single_body(asked, allow_empty_contexts)
        return read_verdict(await self._ask("POST", "/v1/evaluate", body), asked)

    async def evaluate_many(
        self,
        examples: Iterable[Given] | AsyncIterable[Given],
        *,
        allow_empty_contexts: bool = False,
    ) -> AsyncGenerator[Evaluation | FailedEvaluation]:
        """Judge a stream of examples, in order; all as in ``Client.evaluate_many``.

        Args:
            examples: What to judge; an asynchronous stream is read as it comes.
            allow_empty_contexts: As in ``evaluate``.

        Yields:
            The verdict on each example, or why there is none.

        Raises:
            ServerError: The server gives no verdicts; those before were yielded.
        """
        on_their_way: deque[asyncio.Task[list[Result]]] = deque()
        blocks = self._blocks(examples)
        try:
            more = True
            while more or on_their_way:
                try:
                    block = await anext(blocks, None) if more else None
                except Exception:
                    # The stream broke off; what was read of it before is answered first.
                    while on_their_way:
                        for result in await on_their_way.popleft():
                            yield result
                    raise
                more = block is not None
                if block is not None:
                    asking = self._judge(block, allow_empty_contexts)
                    on_their_way.append(asyncio.create_task(asking))
                if on_their_way and (not more or len(on_their_way) >= self.settings.connections):
                    for result in await on_their_way.popleft():
                        yield result
        finally:
            for task in on_their_way:
                task.cancel()
            await asyncio.gather(*on_their_way, return_exceptions=True)
            await blocks.aclose()

    async def relevance(self, question: str, contexts: Sequence[str]) -> Relevance:
        """Judge the contexts alone; arguments, result and errors as in ``Client.relevance``."""
        asked = sendable_question(question, contexts, self.settings.most_bytes)
        return read_relevance(await self._ask("POST", "/v1/relevance", asked.text))

    async def info(self) -> dict[str, Any]:
        """Return what the server says of itself: its bundle, its engine, its limits.

        Raises:
            ServerError: It says nothing.
        """
        return read_object(await self._ask("GET", "/v1/info"))

    async def ready(self) -> bool:
        """Return whether the server is there and takes requests; asked once, without retries."""
        try:
            response = await self._http.get("/health/ready", timeout=self.settings.timeout_seconds)
        except httpx2.TransportError:
            return False
        return response.status_code == httpx2.codes.OK

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _blocks(
        self, examples: Iterable[Given] | AsyncIterable[Given]
    ) -> AsyncGenerator[list[Slot]]:
        blocks = Blocks(self.settings.examples_per_request, self.settings.most_bytes)
        if isinstance(examples, AsyncIterable):
            async for example in examples:
                for block in blocks.add(example):
                    yield block
        else:
            for example in examples:
                for block in blocks.add(example):
                    yield block
        for block in blocks.rest():
            yield block

    async def _judge(self, block: list[Slot], allow_empty_contexts: bool) -> list[Result]:
        """Return one result for each place of a block."""
        asked = [slot for slot in block if isinstance(slot, Sendable)]
        results = iter(await self._results(asked, allow_empty_contexts))
        return [next(results) if isinstance(slot, Sendable) else slot for slot in block]

    async def _results(self, asked: list[Sendable], allow_empty_contexts: bool) -> list[Result]:
        """Ask for several examples; where they are refused, in halves, to find out which."""
        if not asked:
            return []
        body = block_body(asked, allow_empty_contexts)
        try:
            return read_results(await self._ask("POST", "/v1/evaluate", body), asked)
        except BackendError as error:
            return [failed(error, one) for one in asked]
        except (ExampleError, WindowError) as error:
            if len(asked) == 1:
                return [failed(error, asked[0])]
        middle = len(asked) // 2
        first = await self._results(asked[:middle], allow_empty_contexts)
        return first + await self._results(asked[middle:], allow_empty_contexts)

    async def _ask(self, method: str, path: str, content: bytes | None = None) -> httpx2.Response:
        """Return the answer of status 200, after as many tries as it takes and may take."""
        tries = Tries(self.settings.retries, self.settings.timeout_seconds)
        headers = {} if content is None else {"content-type": "application/json"}
        while True:
            try:
                response = await self._http.request(
                    method, path, content=content, headers=headers, timeout=tries.seconds_left()
                )
            except httpx2.TransportError as error:
                problem = unanswered(error, self.settings.url)
            else:
                if response.status_code == httpx2.codes.OK:
                    return response
                problem = refused(response)
            await asyncio.sleep(tries.pause_seconds(problem))
