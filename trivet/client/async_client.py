"""``Client`` for event loops, with the same methods to await."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import httpx2

from trivet.client.answer_stream import AsyncAnswerStream
from trivet.client.messages import MOST_BYTES, Examples, Relevance, Result, Slot
from trivet.client.requester import ClientSettings, Requester, Wait
from trivet.records import Evaluation, FailedEvaluation


class AsyncClient:
    """``Client`` for one event loop, with the same arguments; close it after use."""

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
        limits = (timeout_seconds, retries, connections, examples_per_request, most_bytes)
        self.settings = ClientSettings(url, key, *limits, ca_file)
        self._http = httpx2.AsyncClient(**self.settings.http_arguments())
        self._requester = Requester(self.settings, self._http.request, _pause)

    async def evaluate(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        response: str,
        *,
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        allow_empty_contexts: bool = False,
        threshold: float | None = None,
    ) -> Evaluation:
        """Evaluate one example, as ``Client.evaluate`` does."""
        texts = {"question": question, "contexts": contexts, "response": response}
        options = {"allow_empty_contexts": allow_empty_contexts, "threshold": threshold}
        return await self._requester.evaluate(texts, id, options)

    async def evaluate_many(
        self,
        examples: Examples,
        *,
        mapping: Mapping[str, str] | None = None,
        allow_empty_contexts: bool = False,
        threshold: float | None = None,
    ) -> AsyncGenerator[Evaluation | FailedEvaluation]:
        """Evaluate a stream, asynchronous or not, as ``Client.evaluate_many`` does."""
        options = {"allow_empty_contexts": allow_empty_contexts, "threshold": threshold}
        running: set[asyncio.Task[list[Result]]] = set()

        def begin(block: list[Slot]) -> Wait:
            task = asyncio.create_task(self._requester.evaluate_block(block, options))
            running.add(task)

            def wait() -> Awaitable[list[Result]]:
                running.remove(task)
                return task

            return wait

        results = self._requester.evaluate_many(examples, mapping, begin)
        try:
            async for result in results:
                yield result
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await results.aclose()

    def stream(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        *,
        windows: Literal["evidence", "all"] = "evidence",
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        allow_empty_contexts: bool = False,
        threshold: float | None = None,
    ) -> AsyncAnswerStream:
        """Begin to judge an answer while it is written, as ``Client.stream`` does."""
        options = {"allow_empty_contexts": allow_empty_contexts, "threshold": threshold}
        return AsyncAnswerStream(self._requester, question, contexts, windows, id, options)

    async def relevance(self, question: str, contexts: Sequence[Any] | str) -> Relevance:
        """Score contexts without a response, as ``Client.relevance`` does."""
        return await self._requester.relevance(question, contexts)

    async def info(self) -> dict[str, Any]:
        """Return the server's description, as ``Client.info`` does."""
        return await self._requester.info()

    async def ready(self) -> bool:
        """Return whether the server accepts requests, as ``Client.ready`` does."""
        return await self._requester.ready()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


async def _pause(seconds: float, error: Exception) -> None:
    await asyncio.sleep(seconds)
