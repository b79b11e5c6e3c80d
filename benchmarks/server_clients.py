"""Clients that cost little: plain sockets in one event loop, in a process of their own.

On two cores whatever a client computes is taken from the server. Requests are made beforehand, and
of an answer only the status and the number of windows are read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple, ParamSpec, TypeVar

from benchmarks.server_process import HOST
from trivet.records import RagExample

P = ParamSpec("P")
T = TypeVar("T")

_AFTER_REFUSAL_SECONDS = 0.25
BROKEN = 0  # stands for the status where the connection broke


class Answer(NamedTuple):
    """One request's end.

    Attributes:
        status: Of HTTP, or ``BROKEN``.
        began: When it was sent, as ``time.perf_counter`` counts.
        seconds: Until all of its answer was there.
        windows: How many its verdict says it had; 0 without one.
    """

    status: int
    began: float
    seconds: float
    windows: int


class Connection(asyncio.Protocol):
    """A connection that asks one thing after the other."""

    def __init__(self) -> None:
        """Begin unconnected."""
        self._transport: asyncio.Transport | None = None
        self._got = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    async def ask(self, raw: bytes, port: int) -> Answer:
        """Send a request and return its end; connect first where that is needed."""
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
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._got.clear()

    def data_received(self, data: bytes) -> None:
        """Take a piece of an answer."""
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
        """End what was asked."""
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("closed without an answer"))


def post(example: RagExample, **options: Any) -> bytes:
    """Return the whole request for a verdict on one example.

    Args:
        example: What to judge.
        options: Of the request's body, such as ``timeout_ms``.
    """
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
    """Let clients ask one thing after the other; who is refused waits for a quarter of a second.

    Args:
        port: The server's.
        requests: Asked in this order, over and over, by whoever is free.
        clients: How many.
        seconds: How long new things are asked.

    Returns:
        All answers.
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
    """Ask at random moments, whatever the answers.

    Args:
        port: The server's.
        requests: Asked in this order, over and over.
        per_second: How many in the mean.
        seconds: How long.
        most: Connections; what would need more is not sent.

    Returns:
        All answers, and how many requests were not sent.
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


def in_a_process(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a function of a module in a process of its own; return what it returns."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments, **named).result()


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies; NaN where there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def statuses(answers: Sequence[Answer]) -> str:
    """Return ``200: 40, 429: 3``; what broke is ``broken``."""
    counts = Counter(answer.status for answer in answers)
    named = {("broken" if status == BROKEN else str(status)): n for status, n in counts.items()}
    return ", ".join(f"{status}: {n}" for status, n in sorted(named.items()))


def goodput(answers: Sequence[Answer]) -> float:
    """Return the windows a second of all 200s, from the first request to the last answer.

    The engine has work all that time, so nothing is cut off at either end.
    """
    begin = min(answer.began for answer in answers)
    end = max(answer.began + answer.seconds for answer in answers)
    return sum(a.windows for a in answers if a.status == 200) / (end - begin)


async def good_client(port: int, raw: bytes, seconds: float, pause: float) -> list[Answer]:
    """Ask the same thing again and again, with a pause between."""
    connection, answers = Connection(), []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        answers.append(await connection.ask(raw, port))
        await asyncio.sleep(pause)
    connection.close()
    return answers


def _windows(body: bytes) -> int:
    """Return what stands behind a verdict's last ``"windows"``; 0 where there is none."""
    _, found, rest = body.rpartition(b'"windows": ')
    return int(rest[: rest.find(b",")]) if found else 0
