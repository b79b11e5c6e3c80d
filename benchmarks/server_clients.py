"""Cheap HTTP clients: plain sockets in one event loop.

Clients share the cores with the server, so requests are made beforehand, and only the status and
the number of windows of an answer are read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.server_process import HOST
from trivet.records import RagExample

_AFTER_REFUSAL_SECONDS = 0.25
BROKEN = 0  # status of a broken connection


class Answer(NamedTuple):
    """Outcome of one request.

    Attributes:
        status: HTTP status, or ``BROKEN``.
        began: Time of sending, by ``time.perf_counter``.
        seconds: Seconds until the answer was complete.
        windows: Number of windows by the verdict; 0 without one.
    """

    status: int
    began: float
    seconds: float
    windows: int


class Connection(asyncio.Protocol):
    """A connection that sends one request after the other."""

    def __init__(self) -> None:
        """Start unconnected."""
        self._transport: asyncio.Transport | None = None
        self._got = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    async def ask(self, raw: bytes, port: int) -> Answer:
        """Send a request, connecting first where needed, and return its outcome."""
        began = time.perf_counter()
        loop = asyncio.get_running_loop()
        try:
            if self._transport is None or self._transport.is_closing():
                await loop.create_connection(lambda: self, HOST, port)
            assert self._transport is not None
            self._answer = loop.create_future()
            self._transport.write(raw)
            status, body = await self._answer
        except OSError:
            return Answer(BROKEN, began, time.perf_counter() - began, 0)
        seconds = time.perf_counter() - began
        return Answer(status, began, seconds, _windows(body) if status == 200 else 0)

    def close(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._got.clear()

    def data_received(self, data: bytes) -> None:
        """Add a piece of an answer."""
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0 or self._answer is None or self._answer.done():
            return
        head = bytes(self._got[:end]).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(self._got) >= end + 4 + length:
            body = bytes(self._got[end + 4 : end + 4 + length])
            self._got.clear()
            self._answer.set_result((int(head.split(b" ", 2)[1]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending request."""
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("closed without an answer"))


def post(example: RagExample, **options: Any) -> bytes:
    """Return the bytes of a request to ``/v1/evaluate``."""
    fields = {
        "question": example.question,
        "contexts": example.contexts,
        "response": example.response,
        **options,
    }
    body = json.dumps(fields).encode()
    head = f"POST /v1/evaluate HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def closed_loop(port: int, requests: Sequence[bytes], clients: int, seconds: float) -> list[Answer]:
    """Return the answers to clients that send one request after the other.

    Args:
        port: Port of the server.
        requests: Requests, repeated in this order among all clients.
        clients: Number of clients; each pauses for a quarter of a second after a refusal.
        seconds: Seconds during which requests are sent.
    """

    async def run() -> list[Answer]:
        answers: list[Answer] = []
        until = time.perf_counter() + seconds
        following = itertools.cycle(requests)

        async def client() -> None:
            connection = Connection()
            while time.perf_counter() < until:
                answers.append(await connection.ask(next(following), port))
                if answers[-1].status != 200:
                    await asyncio.sleep(_AFTER_REFUSAL_SECONDS)
            connection.close()

        await asyncio.gather(*(client() for _ in range(clients)))
        return answers

    return asyncio.run(run())


def open_loop(
    port: int, requests: Sequence[bytes], per_second: float, seconds: float, most: int = 450
) -> tuple[list[Answer], int]:
    """Send requests at random moments, independent of the answers.

    Args:
        port: Port of the server.
        requests: Requests, repeated in this order.
        per_second: Mean number of requests a second.
        seconds: Seconds during which requests are sent.
        most: Most connections; a request that would need more is not sent.

    Returns:
        All answers, and the number of requests that were not sent.
    """

    async def run() -> tuple[list[Answer], int]:
        rng = random.Random(0)
        free: list[Connection] = []
        busy: set[asyncio.Task[Answer]] = set()
        answers: list[Answer] = []
        unsent = 0

        async def ask(raw: bytes) -> None:
            connection = free.pop() if free else Connection()
            answers.append(await connection.ask(raw, port))
            free.append(connection)

        until = at = time.perf_counter()
        until += seconds
        for raw in itertools.cycle(requests):
            at += rng.expovariate(per_second)
            if at >= until:
                break
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            if len(busy) >= most:
                unsent += 1
                continue
            task: Any = asyncio.create_task(ask(raw))
            busy.add(task)
            task.add_done_callback(busy.discard)
        await asyncio.gather(*busy)
        for connection in free:
            connection.close()
        return answers, unsent

    return asyncio.run(run())


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile; NaN without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def statuses(answers: Sequence[Answer]) -> str:
    """Return counts by status, as in ``200: 40, 429: 3, broken: 1``."""
    counts = Counter(answer.status for answer in answers)
    named = {("broken" if status == BROKEN else str(status)): n for status, n in counts.items()}
    return ", ".join(f"{status}: {n}" for status, n in sorted(named.items()))


def goodput(answers: Sequence[Answer]) -> float:
    """Return the windows a second of all 200s, from the first request to the last answer."""
    begin = min(answer.began for answer in answers)
    end = max(answer.began + answer.seconds for answer in answers)
    return sum(a.windows for a in answers if a.status == 200) / (end - begin)


async def good_client(port: int, raw: bytes, seconds: float, pause: float) -> list[Answer]:
    """Repeat one request with pauses; return the answers."""
    connection, answers = Connection(), []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        answers.append(await connection.ask(raw, port))
        await asyncio.sleep(pause)
    connection.close()
    return answers


def _windows(body: bytes) -> int:
    """Return the number behind a verdict's last ``"windows"``; 0 without one."""
    _, name, rest = body.rpartition(b'"windows": ')
    return int(rest[: rest.find(b",")]) if name else 0
