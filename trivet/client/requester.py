"""The common core of ``Client`` and ``AsyncClient``: requests, retries and answers, without I/O."""

from __future__ import annotations

import contextlib
import functools
import random
import re
import ssl
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import httpx2

from trivet.client.messages import (
    MAX_BYTES,
    MAX_EXAMPLES,
    EncodedExample,
    Examples,
    Read,
    Relevance,
    Slot,
    blocks,
    body,
    encode,
    read_answer,
    read_relevance,
    read_results,
    read_sentences,
    read_verdict,
    status_problem,
    transport_problem,
)
from trivet.errors import BackendError, ExampleError, WindowError
from trivet.interface import Result, SentenceEvent
from trivet.records import Evaluation, FailedEvaluation, to_json_text

Wait: TypeAlias = Callable[[], Awaitable[list[Result]]]
"""Function that waits for the results of a block."""


@dataclass(frozen=True, slots=True, repr=False)
class ClientSettings:
    """Checked arguments of a client, which ``Client`` documents; no ``repr`` may show the key."""

    url: str
    key: str | None = None
    timeout_seconds: float = 60.0
    retries: int = 4
    connections: int = 8
    examples_per_request: int = 16
    max_bytes: int = MAX_BYTES
    ca_file: Path | str | None = None

    def __post_init__(self) -> None:
        """Check all values; a ``ValueError`` names the argument."""
        parts = httpx2.URL(self.url)
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ValueError(f"url must look like http://host:8080, not {self.url!r}")
        if parts.userinfo or parts.query or parts.fragment:
            raise ValueError("url must contain neither a password nor a query; pass a key as key=")
        if self.key is not None and not re.fullmatch("[!-~]+", self.key.strip()):
            raise ValueError("key must be one word of printable ASCII characters")
        if not 1 <= self.examples_per_request <= MAX_EXAMPLES:
            given = self.examples_per_request
            raise ValueError(f"examples_per_request must be from 1 to {MAX_EXAMPLES}, got {given}")
        for name, least in (("connections", 1), ("max_bytes", 1), ("retries", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if not self.timeout_seconds > 0:
            raise ValueError(f"timeout_seconds must be above 0, got {self.timeout_seconds}")

    def http_arguments(self) -> dict[str, Any]:
        """Return the arguments of an httpx2 client; redirects are not followed."""
        headers = {"user-agent": "trivet", "accept": "application/json"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key.strip()}"
        return {
            "base_url": self.url,
            "headers": headers,
            "verify": ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True,
            "follow_redirects": False,
            "limits": httpx2.Limits(
                max_connections=self.connections, max_keepalive_connections=self.connections
            ),
        }


FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Requester:
    """Sends requests with retries and reads the answers, by functions that do the I/O."""

    settings: ClientSettings
    send: Callable[..., Awaitable[httpx2.Response]]  # with the arguments of ``Client.request``
    pause: Callable[[float, Exception], Awaitable[None]]  # raises the error of a closed client

    async def evaluate(
        self, texts: Mapping[str, object], id_: str | None, options: Mapping[str, object]
    ) -> Evaluation:
        """Evaluate one example."""
        example = encode(texts, id_, self.settings.max_bytes)
        content = body(example.text, options)
        read = functools.partial(read_verdict, example=example)
        return await self._request(_json(read), "POST", "/v1/evaluate", content)

    async def evaluate_block(
        self, block: list[Slot], options: Mapping[str, object]
    ) -> list[Result]:
        """Return one result per slot; a refused block is halved, to isolate the culprit."""
        examples = [slot for slot in block if isinstance(slot, EncodedExample)]
        results: Iterator[Result] = iter(())
        if examples:
            texts = b", ".join(example.text for example in examples)
            content = body(b'{"examples": [' + texts + b"]}", options)
            read = functools.partial(read_results, examples=examples)
            try:
                results = iter(await self._request(_json(read), "POST", "/v1/evaluate", content))
            except (BackendError, ExampleError, WindowError) as error:
                if len(examples) > 1 and not isinstance(error, BackendError):
                    middle = len(block) // 2
                    first = await self.evaluate_block(block[:middle], options)
                    return first + await self.evaluate_block(block[middle:], options)
                failed = getattr(error, "code", "window"), str(error)
                results = iter([FailedEvaluation(each.id, *failed) for each in examples])
        return [next(results) if isinstance(slot, EncodedExample) else slot for slot in block]

    async def evaluate_many(
        self,
        examples: Examples,
        mapping: Mapping[str, str] | None,
        begin: Callable[[list[Slot]], Wait],
    ) -> AsyncGenerator[Result]:
        """Yield the results of a stream in order, with at most ``connections`` blocks under way.

        Args:
            examples: The stream; if it breaks, its error is raised after the results before it.
            mapping: Field names that replace the known ones.
            begin: Begins to evaluate a block, and returns a function that waits for its results.
        """
        settings = self.settings
        stream = blocks(examples, settings.examples_per_request, settings.max_bytes, mapping)
        running: deque[Wait] = deque()
        stream_error = None
        async with contextlib.aclosing(stream):
            while stream_error is None:
                try:
                    running.append(begin(await anext(stream)))
                except StopAsyncIteration:
                    break
                except Exception as error:
                    stream_error = error
                if len(running) >= settings.connections:
                    for result in await running.popleft()():
                        yield result
            while running:
                for result in await running.popleft()():
                    yield result
        if stream_error is not None:
            raise stream_error

    async def relevance(self, question: str, contexts: Sequence[Any] | str) -> Relevance:
        """Score contexts against a question."""
        texts = {"question": question, "contexts": contexts}
        example = encode(texts, None, self.settings.max_bytes)
        return await self._request(_json(read_relevance), "POST", "/v1/relevance", example.text)

    async def sentences(
        self, texts: Mapping[str, object], options: Mapping[str, object]
    ) -> list[SentenceEvent]:
        """Judge sentences of an answer; return their events."""
        example = encode(texts, None, self.settings.max_bytes)
        content = example.text[:-1] + b", " + to_json_text(dict(options)).encode()[1:]
        return await self._request(read_sentences, "POST", "/v1/stream", content)

    async def info(self) -> dict[str, Any]:
        """Return the server's description."""
        return await self._request(_json(dict), "GET", "/v1/info")

    async def ready(self) -> bool:
        """Ask once whether the server accepts requests."""
        timeout = self.settings.timeout_seconds
        try:
            response = await self.send(method="GET", url="/health/ready", timeout=timeout)
        except httpx2.TransportError:
            return False
        return response.status_code == httpx2.codes.OK

    async def _request(
        self,
        read: Callable[[httpx2.Response], Read],
        method: str,
        path: str,
        content: bytes | None = None,
    ) -> Read:
        """Send a request until it is answered with status 200 or may not be repeated.

        Requests change nothing on the server, so repeating one is safe. Exponential pauses with
        full jitter are added to the pause that the server asks for.
        """
        headers = {} if content is None else {"content-type": "application/json"}
        deadline = time.monotonic() + self.settings.timeout_seconds
        retries = 0
        while True:
            timeout = max(deadline - time.monotonic(), 0.001)  # some read 0 as no timeout
            try:
                response = await self.send(
                    method=method, url=path, content=content, headers=headers, timeout=timeout
                )
            except httpx2.TransportError as error:
                problem = transport_problem(error, self.settings.url)
            else:
                if response.status_code == httpx2.codes.OK:
                    return read(response)
                problem = status_problem(response)
            if problem.retry_after_seconds is None or retries == self.settings.retries:
                raise problem.error
            bound = min(FIRST_PAUSE_SECONDS * 2**retries, LONGEST_PAUSE_SECONDS)
            pause = problem.retry_after_seconds + random.uniform(0.0, bound)
            if pause > deadline - time.monotonic():
                raise problem.error
            await self.pause(pause, problem.error)
            retries += 1


def _json(read: Callable[[Any], Read]) -> Callable[[httpx2.Response], Read]:
    """Return a function that reads an answer whose body is a JSON object."""
    return functools.partial(read_answer, read=read)


def run(coroutine: Coroutine[Any, Any, Read]) -> Read:
    """Return the result of a coroutine that never suspends, as its I/O functions block instead."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Read = end.value
        return result
    raise AssertionError("the coroutine was suspended")
