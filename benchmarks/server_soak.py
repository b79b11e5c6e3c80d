"""Memory and descriptors during a minute of good and bad requests.

python -m benchmarks.server_soak [--seconds 60] [--clients 16] [--bundle DIR]

Four of ten requests are bad: no JSON, lone surrogates, NaN, too large, unknown fields and routes,
or aborted in the headers, in the body or before the answer. The first seconds are not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence

from benchmarks.backends import tokenizer_of
from benchmarks.inputs import build_example, sample_requests
from benchmarks.report import Table, publish
from benchmarks.server_clients import Connection, post
from benchmarks.server_process import HOST, server_parser, serving
from benchmarks.timing import in_a_process

_WARM_SECONDS = 10.0
_EVERY_SECONDS = 1.0
_SHARE_BAD = 0.4


def _raw(body: bytes, path: str = "/v1/evaluate") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


ANSWERED = (
    _raw(b"{"),
    _raw(b"[" * 100_000),
    _raw(b'{"question": "a", "contexts": ["b"], "response": NaN}'),
    _raw(b'{"question": "\\ud800", "contexts": ["b"], "response": "c"}'),
    _raw(b'{"question": "a", "contexts": [], "response": "c"}'),
    _raw(b'{"question": "a", "contexts": ["b"], "response": "c", "more": 1}'),
    _raw(b"\xff\xfe"),
    _raw(b"{}", "/nothing"),
    _raw(b'{"question": "a", "contexts": ["b"], "response": "c", "timeout_ms": 0.001}'),
    f"GET /v1/evaluate HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode(),
    f"GET /metrics HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode(),
)
"""Bad requests after which the connection stays open."""


def mixed(
    port: int, good: Sequence[bytes], clients: int, seconds: float
) -> tuple[dict[str, int], float]:
    """Send good and bad requests; return counts by outcome and the seconds."""
    ends: Counter[str] = Counter()

    async def break_off(rng: random.Random) -> None:
        """Abort in the headers, in the body or before the answer, or send a broken header."""
        raw = rng.choice(good)
        part = rng.choice([raw[: rng.randrange(1, len(raw))], raw, raw.replace(b"Host", b"Ho st")])
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, port)
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(rng.uniform(0, 0.05))
            writer.close()
            ends["broken off"] += 1

    async def client(number: int) -> None:
        rng, connection = random.Random(number), Connection()
        following = itertools.cycle(rng.sample(good, len(good)))
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            if rng.random() >= _SHARE_BAD:
                answer = await connection.ask(next(following), port)
            elif rng.random() < 0.5:
                answer = await connection.ask(rng.choice(ANSWERED), port)
            else:
                await break_off(rng)
                continue
            ends[str(answer.status or "broken")] += 1
        connection.close()

    async def run() -> None:
        await asyncio.gather(*(client(number) for number in range(clients)))

    began = time.perf_counter()
    asyncio.run(run())
    return dict(ends), time.perf_counter() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Send requests, watch the server, print the figures."""
    flags = server_parser(__doc__, repeats=1)
    flags.add_argument("--seconds", type=float, default=60.0, help="counted seconds")
    flags.add_argument("--clients", type=int, default=16)
    given = flags.parse_args(arguments)
    tokenizer = tokenizer_of(given.bundle)
    good = [post(build_example(tokenizer, tokens, 30)) for tokens in range(10, 100, 5)]
    good += [post(example) for example in sample_requests(tokenizer, 2)]  # of many windows
    memory: list[float] = []
    descriptors: list[int] = []
    over = threading.Event()
    with serving(given) as server:
        idle = server.descriptors()

        def watch() -> None:
            over.wait(_WARM_SECONDS)
            while not over.wait(_EVERY_SECONDS):
                memory.append(server.memory_mb())
                descriptors.append(server.descriptors())

        watching = threading.Thread(target=watch)
        watching.start()
        whole = given.seconds + _WARM_SECONDS
        try:
            ends, took = in_a_process(mixed, server.port, good, given.clients, whole)
        finally:
            over.set()
            watching.join()
        time.sleep(_EVERY_SECONDS)
        after = server.descriptors()
    asked = sum(ends.values())
    third = max(1, len(memory) // 3)
    rows = [
        ("requests", asked),
        ("a second", f"{asked / took:.0f}"),
        ("memory, first seconds, MB", f"{max(memory[:third]):.1f}"),
        ("memory, last seconds, MB", f"{max(memory[-third:]):.1f}"),
        ("growth, MB", f"{max(memory[-third:]) - max(memory[:third]):+.1f}"),
        ("descriptors before, most, after", f"{idle}, {max(descriptors)}, {after}"),
        *((f"ended {name}", count) for name, count in sorted(ends.items())),
    ]
    title = f"{given.seconds:g} s after {_WARM_SECONDS:g} to warm up, {given.clients} clients"
    publish("server_soak", [Table(title, ("what", "figure"), rows)], given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
