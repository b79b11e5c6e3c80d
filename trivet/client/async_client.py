"""``Client`` for event loops, with the same methods to await."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, Unpack

import httpx2

from trivet.client.messages import MAX_BYTES, Examples, Relevance, Slot
from trivet.client.requester import ClientSettings, Requester, Wait
from trivet.errors import ExampleError
from trivet.interface import Options, Result, SentenceEvent, checked, takes_options
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
        max_bytes: int = MAX_BYTES,
        ca_file: Path | str | None = None,
    ) -> None:
        limits = (timeout_seconds, retries, connections, examples_per_request, max_bytes)
        self.settings = ClientSettings(url, key, *limits, ca_file)
        self._http = httpx2.AsyncClient(**self.settings.http_arguments())
        self._requester = Requester(self.settings, self._http.request, _pause)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments: the copy opens its own connections."""
        return functools.partial(type(self), **dataclasses.asdict(self.settings)), ()

    @takes_options
    async def evaluate(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        response: str,
        *,
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> Evaluation:
        """Evaluate one example, as ``Client.evaluate`` does."""
        texts = {"question": question, "contexts": contexts, "response": response}
        return await self._requester.evaluate(texts, id, checked(options))

    @takes_options
    async def evaluate_many(
        self,
        examples: Examples,
        *,
        mapping: Mapping[str, str] | None = None,
        **options: Unpack[Options],
    ) -> AsyncGenerator[Evaluation | FailedEvaluation]:
        """Evaluate a stream, asynchronous or not, as ``Client.evaluate_many`` does."""
        wanted, running = checked(options), set[asyncio.Task[list[Result]]]()

        def begin(block: list[Slot]) -> Wait:
            task = asyncio.create_task(self._requester.evaluate_block(block, wanted))
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

    @takes_options
    def stream(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        *,
        windows: Literal["evidence", "all"] = "evidence",
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> AsyncAnswerStream:
        """Begin to judge an answer while it is written, as ``Client.stream`` does."""
        return AsyncAnswerStream(self._requester, question, contexts, windows, id, checked(options))

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


class AsyncAnswerStream:
    """Judges an answer while it is written; made by ``AsyncClient.stream``.

    Every request holds the contexts and the text so far: the server remembers nothing. None is
    sent for a piece that completes no sentence.
    """

    def __init__(
        self,
        requester: Requester,
        question: str,
        contexts: Sequence[Any] | str,
        windows: str,
        id_: str | None,
        options: Mapping[str, object],
    ) -> None:
        from trivet.data.sentences import GrowingText

        self._growing = GrowingText()
        self._requester = requester
        self._texts = {"question": question, "contexts": contexts}
        self._windows = windows
        self._id = id_
        self._given = options
        self._verdict: Evaluation | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return self._growing.text

    async def afeed(self, text: str) -> list[SentenceEvent]:
        """Append a piece of text and judge what it completes, as ``AnswerStream.feed``.

        Raises:
            ExampleError: The piece is not a string, or question or contexts cannot be evaluated.
            BackendError: The server's backend failed.
            ServerError: The server gave no answer for another reason.
            ValueError: The stream is closed.
        """
        self._check_open()
        if not isinstance(text, str):
            raise ExampleError(f"a piece of text must be a string, not {type(text).__name__}")
        start = self._growing.start
        return await self._judge(start, False) if self._growing.append(text) else []

    async def aflush(self) -> list[SentenceEvent]:
        """Judge the rest of the text as it is; errors as in ``afeed``."""
        self._check_open()
        start = self._growing.start
        return await self._judge(start, True) if self._growing.rest() else []

    async def aclose(self) -> Evaluation:
        """Evaluate all of the text; later calls return the same verdict."""
        if self._verdict is None:
            texts = {**self._texts, "response": self.text}
            self._verdict = await self._requester.evaluate(texts, self._id, self._given)
        return self._verdict

    async def _judge(self, start: int, complete: bool) -> list[SentenceEvent]:
        texts = {**self._texts, "response": self.text}
        options = {
            "start": start,
            "complete": complete,
            "verdict": False,
            "windows": self._windows,
            **self._given,
        }
        return await self._requester.sentences(texts, options)

    def _check_open(self) -> None:
        if self._verdict is not None:
            raise ValueError("the stream is closed; begin another one with stream()")
