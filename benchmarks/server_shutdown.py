"""SIGTERM with requests in flight: their answers, the time to the exit, and leftovers.

python -m benchmarks.server_shutdown [--requests 30] [--grace 30] [--bundle DIR]
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.backends import tokenizer_of
from benchmarks.inputs import build_example
from benchmarks.report import Table, publish
from benchmarks.server_clients import Answer, Connection, post, statuses
from benchmarks.server_process import HOST, server_parser, serving
from benchmarks.timing import in_a_process

_PROBE = f"GET {{}} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"
_SHARED = Path("/dev/shm")


def all_at_once(port: int, raw: bytes, requests: int) -> list[Answer]:
    """Send one request on many connections at a time."""

    async def run() -> list[Answer]:
        connections = [Connection() for _ in range(requests)]
        answers = await asyncio.gather(*(each.ask(raw, port) for each in connections))
        return list(answers)

    return asyncio.run(run())


def page(port: int, path: str) -> bytes:
    """Return a page with its headers."""
    got = b""
    with socket.create_connection((HOST, port), timeout=10) as connection:
        connection.sendall(_PROBE.format(path).encode())
        while piece := connection.recv(65_536):
            got += piece
    return got


def probe(port: int, path: str) -> int:
    """Return the status of a page."""
    return int(page(port, path).split(b" ", 2)[1])


def in_flight(port: int) -> int:
    """Return the number of accepted requests without an answer."""
    count = page(port, "/metrics").rpartition(b"\ntrivet_queue_requests ")[2]
    return int(float(count.partition(b"\n")[0]))


def listens(port: int) -> bool:
    """Return whether the port is still open."""
    with socket.socket() as connection:
        return connection.connect_ex((HOST, port)) == 0


def shared_files() -> set[Path]:
    """Return the files in shared memory, without the benchmark's own semaphores."""
    return {file for file in _SHARED.iterdir() if not file.name.startswith("sem.")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Stop servers and print the outcomes."""
    flags = server_parser(__doc__, repeats=3)
    flags.add_argument("--requests", type=int, default=30, help="requests in flight")
    flags.add_argument("--grace", type=float, default=30.0, help="seconds")
    flags.add_argument("--tokens", type=int, default=800, help="tokens of each context")
    given = flags.parse_args(arguments)
    raw = post(build_example(tokenizer_of(given.bundle), given.tokens))
    rows = []
    for _ in range(given.repeats):
        shared = shared_files()
        with serving(given, "--grace", f"{given.grace:g}") as server:
            answers: list[Answer] = []

            def ask(port: int = server.port, into: list[Answer] = answers) -> None:
                into += in_a_process(all_at_once, port, raw, given.requests)

            asking = threading.Thread(target=ask)
            asking.start()
            while in_flight(server.port) < given.requests:
                time.sleep(0.01)
            children = server.children()
            began = time.perf_counter()
            server.terminate()
            while (ready := probe(server.port, "/health/ready")) == 200:
                time.sleep(0.001)
            turned = time.perf_counter() - began
            live = probe(server.port, "/health/live")
            code = server.wait()
            took = time.perf_counter() - began
            asking.join()
            rows.append(
                (
                    statuses(answers),
                    f"{ready} after {1000 * turned:.0f} ms",
                    live,
                    code,
                    f"{took:.2f}",
                    f"{len(children)} processes, "
                    f"{'a listener' if listens(server.port) else 'no listener'}, "
                    f"{len(shared_files() - shared)} files in {_SHARED}",
                )
            )
    header = ("answers", "ready", "live", "exit code", "seconds to the exit", "left behind")
    title = f"SIGTERM with {given.requests} in flight, grace {given.grace:g} s"
    publish("server_shutdown", [Table(title, header, rows)], given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
