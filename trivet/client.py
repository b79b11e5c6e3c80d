"""Clients of a Trivet server, with the methods of ``Evaluator``; they load no model.

Both share requests, retries and answers. A coroutine of the shared part waits by two functions:
those of ``AsyncClient`` suspend, those of ``Client`` block: then it ends in one step.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import math
import random
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar, Unpack

import httpx2

from trivet.errors import BackendError, ExampleError, ServerError, WindowError, served_error
from trivet.interface import Options, Result, Results, SentenceEvent, checked
from trivet.logs.context_values import named_request, request_body, request_or_failure
from trivet.logs.rows import Rows, count_rows, iterate_examples, read_examples
from trivet.records import Evaluation, FailedEvaluation
from trivet.verdict_json import read_answer, read_answers, read_events

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0
_BLOCK_CHARACTERS = 250_000  # of many long examples, each alone would meet the deadline
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
Record = dict[str, Any]
_Block = list[Record | FailedEvaluation]


@dataclasses.dataclass(repr=False, eq=False)  # a repr would show the key
class _Connection(Generic[S]):
    """Arguments of both clients, and how they ask a server."""

    url: str
    key: str | None = None
    timeout_seconds: float = 60.0
    retries: int = 4
    connections: int = 8
    examples_per_request: int = 16
    ca_file: Path | str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#@\s]*)?", self.url):
            raise ValueError("url must look like http://host:8080, without password and query")
        if self.key is not None and not re.fullmatch("[!-~]+", self.key):
            raise ValueError("key must be one word of printable ASCII characters")
        bounds = {"timeout_seconds": (0.001, 1e6), "retries": (0, 1000), "connections": (1, 1000)}
        for name, (low, high) in (bounds | {"examples_per_request": (1, 64)}).items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be from {low} to {high}, got {getattr(self, name)}")
        self._stream: Callable[..., S]
        self._send: Callable[..., Coroutine[Any, Any, httpx2.Response]]
        self._pause: Callable[[float], Coroutine[Any, Any, bool | None]]  # true: closed meanwhile

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments: the copy opens its own connections."""
        return functools.partial(type(self), **dataclasses.asdict(self)), ()

    def _http_arguments(self) -> Record:
        key = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return {
            "base_url": self.url,
            "headers": {"user-agent": "trivet", "content-type": "application/json", **key},
            "verify": ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True,
            "limits": httpx2.Limits(max_connections=self.connections),
        }

    def stream(
        self,
        question: str,
        contexts: Iterable[Any],
        *,
        windows: Literal["evidence", "all"] = "evidence",
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> S:
        """Begin to judge an answer while it is written, like ``Evaluator.stream``."""
        return self._stream(self, question, contexts, {"windows": windows, "id": id, **options})

    async def _ask(self, path: str, read: Callable[[str], T], record: Record | None = None) -> T:
        """Send a request until it is answered with status 200 or may not be repeated.

        Requests change nothing on the server, so repeating one is safe. Exponential pauses with
        full jitter are added to the pause that the server asks for.
        """
        content = None if record is None else request_body(record)
        method, retries = "GET" if content is None else "POST", 0
        deadline = time.monotonic() + self.timeout_seconds
        while True:
            timeout = max(deadline - time.monotonic(), 0.001)  # some read 0 as no timeout
            try:
                answer = await self._send(method, path, content=content, timeout=timeout)
            except httpx2.TransportError as cause:
                error, pause = _unanswered(cause, self.url)
            else:
                if answer.status_code == httpx2.codes.OK:
                    try:
                        return read(answer.text)
                    except (ValueError, LookupError, TypeError, AttributeError) as cause:
                        message = f"{answer.url} does not answer like a Trivet server: {cause!r}"
                        raise ServerError(message, answer.status_code) from cause
                error, pause = _refused(answer)
            pause += random.uniform(0, min(FIRST_PAUSE_SECONDS * 2**retries, LONGEST_PAUSE_SECONDS))
            retries += 1
            is_late = retries > self.retries or pause > deadline - time.monotonic()
            if is_late or await self._pause(pause):
                raise error

    async def _ask_many(self, block: _Block | Exception, options: Record) -> list[Result]:
        """Return a result for each place; after a refusal, the examples are sent one by one."""
        if isinstance(block, Exception):
            raise block
        records = [item for item in block if isinstance(item, dict)]
        read = functools.partial(read_answers, ids=[record["id"] for record in records])
        try:
            request = {"examples": records, **options}
            results = await self._ask("/v1/evaluate", read, request) if records else []
        except (BackendError, ExampleError, WindowError) as error:
            if len(records) > 1 and not isinstance(error, BackendError):
                return [r for item in block for r in await self._ask_many([item], options)]
            results = [FailedEvaluation.of(error, record["id"]) for record in records]
        answered = iter(results)
        return [next(answered) if isinstance(item, dict) else item for item in block]

    async def _blocks(self, examples: AsyncGenerator[Any]) -> AsyncGenerator[_Block | Exception]:
        """Group examples into blocks for one request; the error of a broken stream is the last."""
        block, characters = _Block(), 0
        try:
            async for example in examples:
                block.append(request_or_failure(example))
                characters += len(str(block[-1]))
                if len(block) >= self.examples_per_request or characters >= _BLOCK_CHARACTERS:
                    yield block
                    block, characters = _Block(), 0
        except Exception as error:
            yield error
        else:
            yield block


def _unanswered(error: httpx2.TransportError, url: str) -> tuple[Exception, float]:
    """Return the error of a try without an answer, and the pause before the next."""
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        message = f"{url} did not answer in time ({cause}); raise timeout_seconds, or send less"
        return ServerError(message, error_type="timeout"), math.inf
    # Refused, reset or closed before the answer, as during a restart; TLS errors stay.
    temporary = isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError)
    unreachable = ServerError(f"{url} cannot be reached ({cause})", error_type="unreachable")
    return unreachable, 0.0 if temporary and "[SSL" not in str(error) else math.inf


def _refused(answer: httpx2.Response) -> tuple[Exception, float]:
    """Return the error of an answer with another status, and the pause before the next try."""
    header = answer.headers.get("retry-after", "")
    pause = float(header) if re.fullmatch("[0-9]{1,9}", header) else 0.0
    error = served_error(answer.text, answer.status_code, answer.headers.get("x-request-id"))
    return error, pause if answer.status_code in (429, 503) else math.inf


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("the coroutine was suspended")


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Return the method for an object whose functions block."""

    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> T:
        return _run(method(*arguments, **options))

    return call


class AsyncClient(_Connection["AsyncAnswerStream"]):
    """``Client`` for one event loop, with the same arguments; close it after use."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._http = httpx2.AsyncClient(**self._http_arguments())
        self._send, self._pause = self._http.request, asyncio.sleep
        self._stream = AsyncAnswerStream

    async def evaluate(
        self,
        question: str,
        contexts: Iterable[Any],
        response: str,
        *,
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> Evaluation:
        """Evaluate one example, as ``Evaluator.evaluate`` does, with lone surrogates as U+FFFD.

        Raises:
            ServerError: The server gave no verdict, for a reason that is not in the example.
        """
        record = named_request(question, contexts, response, id) | checked(options)
        return await self._ask("/v1/evaluate", read_answer, record)

    async def evaluate_many(
        self,
        examples: Rows,
        *,
        mapping: Mapping[str, str] | None = None,
        **options: Unpack[Options],
    ) -> AsyncGenerator[Result]:
        """Evaluate a stream, asynchronous or not, as ``Client.evaluate_many`` does."""
        wanted, running = dict(checked(options)), deque[asyncio.Task[list[Result]]]()
        read = iterate_examples(examples, mapping)
        blocks = self._blocks(read)
        try:
            async for block in blocks:
                running.append(asyncio.create_task(self._ask_many(block, wanted)))
                if len(running) >= self.connections:
                    for result in await running.popleft():
                        yield result
            while running:
                for result in await running.popleft():
                    yield result
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await blocks.aclose()
            await read.aclose()

    async def info(self) -> Record:
        """Return the server's description: its bundle, backend and limits."""
        return await self._ask("/v1/info", lambda text: dict(json.loads(text)))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class Client(_Connection["ClientStream"]):
    """Client of a server. Safe to use from several threads; close it after use.

    Args:
        url: Address such as ``http://127.0.0.1:8080``; a path before ``/v1`` is kept.
        key: API key, if the server requires one.
        timeout_seconds: Time for one request with all its retries and pauses. No try begins later,
            and a try fails after as much silence as was left when it began.
        retries: Maximum repetitions of a request that was answered with 429 or 503, or whose
            connection was refused or broke before the answer.
        connections: Maximum connections, and so requests of ``evaluate_many`` at a time.
        examples_per_request: Maximum examples per request of ``evaluate_many``, from 1 to 64.
        ca_file: PEM file of the authority that signed the server's certificate; ``None`` uses
            the authorities that the system trusts.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._http = httpx2.Client(**self._http_arguments())
        self._closed = threading.Event()

        async def send(*arguments: Any, **options: Any) -> httpx2.Response:
            return self._http.request(*arguments, **options)

        async def pause(seconds: float) -> bool:
            return self._closed.wait(seconds)

        self._send, self._pause, self._stream = send, pause, ClientStream

    evaluate = _blocking(AsyncClient.evaluate)
    info = _blocking(AsyncClient.info)

    def evaluate_many(
        self,
        examples: Iterable[Any],
        *,
        mapping: Mapping[str, str] | None = None,
        progress: bool = False,
        **options: Unpack[Options],
    ) -> Results:
        """Evaluate a stream of examples, in order, as ``Evaluator.evaluate_many`` does.

        At most ``connections`` requests run at a time; no more examples are read than they hold.

        Raises:
            ServerError: The server gave no verdicts; earlier results were yielded.
        """
        results = self._results(read_examples(examples, mapping), dict(checked(options)))
        return Results(results, count_rows(examples), progress)

    def _results(self, examples: Iterable[Any], options: Record) -> Generator[Result]:
        pool = ThreadPoolExecutor(self.connections, thread_name_prefix="trivet-client")
        running = deque[Future[list[Result]]]()
        ask, blocks = _blocking(_Connection._ask_many), self._blocks(iterate_examples(examples))
        try:
            while (block := _run(anext(blocks, None))) is not None:
                running.append(pool.submit(ask, self, block, options))
                if len(running) >= self.connections:
                    yield from running.popleft().result()
            while running:
                yield from running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Close the connections; requests that wait for a retry fail with their last error."""
        self._closed.set()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Stream:
    def __init__(
        self, client: _Connection[Any], question: str, contexts: Any, options: Any
    ) -> None:
        from trivet.data.sentences import GrowingText

        self._ask, self._growing = client._ask, GrowingText()
        self._windows = {"windows": options.pop("windows", "evidence")}
        self._record = named_request(question, contexts, "", options.pop("id", None))
        self._record |= checked(options)
        self._verdict: Evaluation | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return self._growing.text

    async def _feed(self, text: str) -> list[SentenceEvent]:
        """Append a piece of text and judge what it completes; errors as of ``evaluate``."""
        if not isinstance(text, str):
            raise ExampleError(f"a piece of text must be a string, not {type(text).__name__}")
        return await self._judge(lambda: self._growing.append(text), False)

    async def _flush(self) -> list[SentenceEvent]:
        """Judge the rest of the text as it is."""
        return await self._judge(self._growing.rest, True)

    async def _close(self) -> Evaluation:
        """Evaluate all of the text; later calls return the same verdict."""
        if self._verdict is None:
            record = self._record | {"response": self.text}
            self._verdict = await self._ask("/v1/evaluate", read_answer, record)
        return self._verdict

    async def _judge(self, step: Callable[[], object], complete: bool) -> list[SentenceEvent]:
        if self._verdict is not None:
            raise ValueError("the stream is closed; begin another one with stream()")
        start = self._growing.start
        if not step():
            return []
        step_fields = {"start": start, "complete": complete, "verdict": False, **self._windows}
        record = self._record | {"response": self.text, **step_fields}
        return await self._ask("/v1/stream", read_events, record)


class AsyncAnswerStream(_Stream):
    """Judges an answer while it is written; made by ``AsyncClient.stream``."""

    afeed, aflush, aclose = _Stream._feed, _Stream._flush, _Stream._close


class ClientStream(_Stream):
    """``AsyncAnswerStream`` without an event loop; made by ``Client.stream``."""

    feed, flush = _blocking(_Stream._feed), _blocking(_Stream._flush)
    close = _blocking(_Stream._close)
