"""Hostile connections: time-outs, memory, and the service to a good client meanwhile.

python -m benchmarks.server_attacks [--timeout 3] [--bundle DIR]

First slow headers, slow bodies and silent connections while a good client asks; then floods of
chunks and headers, too large bodies, and smuggled requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from benchmarks.backends import tokenizer_of
from benchmarks.inputs import build_example
from benchmarks.report import Table, publish
from benchmarks.server_clients import (
    Answer,
    good_client,
    percentile,
    post,
    statuses,
)
from benchmarks.server_process import HOST, ServerProcess, server_parser, serving
from benchmarks.timing import in_a_process

HEADERS, BODIES, SILENT = 300, 50, 50
HEAD = f"POST /v1/evaluate HTTP/1.1\r\nHost: {HOST}\r\n".encode()
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = f"GET /v1/info HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
PROBES = {
    "CL and TE": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "TE and CL": CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
    "a list of lengths": HEAD + b"Content-Length: 0, 44\r\n\r\n",
    "a signed length": HEAD + b"Content-Length: +0\r\n\r\n",
    "an unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "space before the colon": HEAD + b"Content-Length : 0\r\n\r\n",
    "bare line feeds": HEAD.replace(b"\r\n", b"\n") + b"\n",
    "a folded line": HEAD + b"X: a\r\n Content-Length: 44\r\n\r\n",
    "a chunk size with a space": CHUNKED + b"0 \r\n\r\n",
    "no Host": b"POST /v1/evaluate HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
}
_PACE_SECONDS = 0.2
_SILENCE_SECONDS = 2.0  # after which a connection counts as kept open


class Hostile(NamedTuple):
    """Outcome of one hostile connection.

    Attributes:
        kind: Kind of attack.
        seconds: Seconds until the server closed it, or until its first byte.
        received: Bytes from the server.
        closed: Whether the server closed it.
    """

    kind: str
    seconds: float
    received: bytes
    closed: bool = True


async def trickle(kind: str, port: int, first: bytes, drip: bytes) -> Hostile:
    """Send ``first``, then ``drip`` again and again until the server closes the connection."""
    began, answer = time.perf_counter(), b""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(first)

    async def drop() -> None:
        with contextlib.suppress(ConnectionError):
            while drip:
                writer.write(drip)
                await writer.drain()
                await asyncio.sleep(_PACE_SECONDS)

    dripping = asyncio.create_task(drop())
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            answer += piece
    dripping.cancel()
    writer.close()
    return Hostile(kind, time.perf_counter() - began, answer)


def siege(
    port: int, raw: bytes, seconds: float, besieged: bool
) -> tuple[list[Answer], list[Hostile]]:
    """Run a good client, with the slow connections at the same time if ``besieged``."""

    async def run() -> tuple[list[Answer], list[Hostile]]:
        hostile: list[Coroutine[Any, Any, Hostile]] = []
        if besieged:
            body = HEAD + b"Content-Length: 100000\r\n\r\n"
            hostile = [
                *(trickle("slow headers", port, HEAD, b"X") for _ in range(HEADERS)),
                *(trickle("slow bodies", port, body, b" ") for _ in range(BODIES)),
                *(trickle("silent", port, b"", b"") for _ in range(SILENT)),
            ]
        attack = asyncio.gather(*hostile)
        good = await good_client(port, raw, seconds, 0.05)
        return good, await attack

    return asyncio.run(run())


def flood(port: int, parts: Sequence[bytes]) -> Hostile:
    """Send all parts as fast as possible; return the outcome."""

    async def run() -> Hostile:
        began, answer = time.perf_counter(), b""
        reader, writer = await asyncio.open_connection(HOST, port)

        async def pour() -> None:
            with contextlib.suppress(ConnectionError):
                for part in parts:
                    writer.write(part)
                    await writer.drain()

        pouring = asyncio.create_task(pour())
        answered, closed = 0.0, True
        try:
            while piece := await asyncio.wait_for(reader.read(65_536), _SILENCE_SECONDS):
                answered = answered or time.perf_counter() - began
                answer += piece
        except TimeoutError:
            closed = False
        except ConnectionError:
            pass
        pouring.cancel()
        writer.close()
        return Hostile("flood", answered, answer, closed)

    return asyncio.run(run())


def count(end: Hostile) -> int:
    """Return the number of answers on a connection."""
    return end.received.count(b"\r\ndate: ")


def sieges(server: ServerProcess, raw: bytes, given_timeout: float) -> list[Table]:
    """Measure the slow connections and the good client."""
    seconds = 2 * given_timeout + 2
    before = server.descriptors()
    alone, _ = in_a_process(siege, server.port, raw, seconds, False)
    good, ends = in_a_process(siege, server.port, raw, seconds, True)
    rows = []
    for kind in ("slow headers", "slow bodies", "silent"):
        took = [end.seconds for end in ends if end.kind == kind]
        refused = sum(b" 408 " in end.received for end in ends if end.kind == kind)
        rows.append((kind, len(took), refused, f"{min(took):.2f}", f"{max(took):.2f}"))
    ms = [[1000 * answer.seconds for answer in answers] for answers in (alone, good)]
    p99 = [percentile(times, 0.99) for times in ms]
    return [
        Table(
            f"Closed by the server, time-out {given_timeout:g} s",
            ("connections", "how many", "told 408", "first, s", "last, s"),
            rows,
        ),
        Table(
            f"A good client meanwhile: p99 {p99[1] / p99[0]:.2f} times as long; descriptors "
            f"{before} before, {server.descriptors()} after",
            ("", "p50, ms", "p99, ms", "answers"),
            [
                (name, f"{percentile(times, 0.5):.1f}", f"{last:.1f}", statuses(answers))
                for name, times, last, answers in zip(
                    ("alone", "besieged"), ms, p99, (alone, good), strict=True
                )
            ],
        ),
    ]


def floods(server: ServerProcess) -> Table:
    """Measure floods: answer, time and memory."""
    bodies: dict[str, Callable[[], list[bytes]]] = {
        "500,000 chunks of a byte": lambda: [CHUNKED, *[b"1\r\n \r\n" * 5000] * 100, b"0\r\n\r\n"],
        "a body of 3 MB": lambda: [HEAD + b"Content-Length: 3000000\r\n\r\n", *[b" " * 10**6] * 3],
        "the same, in chunks": lambda: [CHUNKED, *[b"f4240\r\n" + b" " * 10**6 + b"\r\n"] * 3],
        "a header of 64 KB": lambda: [HEAD + b"X: " + b"a" * 65_536 + b"\r\n\r\n"],
        "2,000 headers": lambda: [HEAD + b"X: a\r\n" * 2000 + b"\r\n"],
        "a trailer without end": lambda: [CHUNKED + b"0\r\nX: ", *[b"a" * 10**6] * 20],
        "10,000 requests at once": lambda: [SMUGGLED * 10_000],
    }
    rows = []
    for name, parts in bodies.items():
        in_a_process(flood, server.port, [*parts()[:1], b"\r\n\r\n"])  # warm up code and buffers
        before = server.forget_peak_mb()
        end = in_a_process(flood, server.port, parts())
        grown = server.peak_mb() - before
        told = end.received[9:12].decode() or "closed"
        rows.append((name, told, count(end), f"{1000 * end.seconds:.1f}", f"{grown:+.1f}"))
    header = ("what", "answer", "answers in all", "after, ms", "peak memory, MB")
    return Table("Too much", header, rows)


def probes(server: ServerProcess) -> Table:
    """Send ambiguous requests, each with a smuggled one behind it."""
    rows = []
    for name, probe in PROBES.items():
        end = in_a_process(flood, server.port, [probe + SMUGGLED])
        closed = "yes" if end.closed else "no"
        rows.append((name, end.received[9:12].decode(), count(end), closed))
    return Table("Smuggling", ("probe", "answer", "answers in all", "closed"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack a server and print the outcomes."""
    flags = server_parser(__doc__, repeats=1)
    flags.add_argument(
        "--timeout", type=float, default=3.0, help="seconds for headers and for bodies"
    )
    options = flags.parse_args(arguments)
    raw = post(build_example(tokenizer_of(options.bundle), 200))
    seconds = f"{options.timeout:g}"
    limits = ("--header-timeout", seconds, "--body-timeout", seconds)
    with serving(options, *limits) as server:
        tables = sieges(server, raw, options.timeout)
        tables += [floods(server), probes(server)]
    publish("server_attacks", tables, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
