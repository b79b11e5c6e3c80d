"""Times of short requests with and without a long one at the same time.

python -m benchmarks.server_fairness [--tokens 16384] [--seconds 20] [--bundle DIR]

Clients send short requests with pauses, so that the backend is not busy all the time. In every
second run another client sends long requests, one at a time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

from benchmarks.backends import tokenizer_of
from benchmarks.inputs import build_example
from benchmarks.report import Table, publish
from benchmarks.server_clients import (
    Answer,
    Connection,
    good_client,
    percentile,
    post,
    statuses,
)
from benchmarks.server_process import server_parser, serving
from benchmarks.timing import in_a_process

SHORT_TOKENS = 200


def ask_both(
    port: int, short: bytes, long: bytes | None, clients: int, pause: float, seconds: float
) -> tuple[list[Answer], list[Answer]]:
    """Send short and, if given, long requests; return the answers to each."""

    async def ask_long() -> list[Answer]:
        connection, answers = Connection(), []
        until = time.perf_counter() + seconds
        while long is not None and time.perf_counter() < until:
            answers.append(await connection.ask(long, port))
        connection.close()
        return answers

    async def run() -> tuple[list[Answer], list[Answer]]:
        asking = (good_client(port, short, seconds, pause) for _ in range(clients))
        slow, *quick = await asyncio.gather(ask_long(), *asking)
        return [answer for answers in quick for answer in answers], slow

    return asyncio.run(run())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    flags = server_parser(__doc__, repeats=3)
    flags.add_argument("--tokens", type=int, default=16384, help="tokens of the long context")
    flags.add_argument("--clients", type=int, default=4, help="clients with short requests")
    flags.add_argument("--pause", type=float, default=0.1, help="seconds between two requests")
    flags.add_argument("--seconds", type=float, default=20.0, help="seconds of a run")
    options = flags.parse_args(arguments)
    tokenizer = tokenizer_of(options.bundle)
    short = post(build_example(tokenizer, SHORT_TOKENS))
    long = post(build_example(tokenizer, options.tokens))
    rows = []
    with serving(options) as server:
        for _ in range(options.repeats):
            alone = 0.0
            for background in (None, long):
                quick, slow = in_a_process(
                    ask_both,
                    server.port,
                    short,
                    background,
                    options.clients,
                    options.pause,
                    options.seconds,
                )
                ms = [1000 * answer.seconds for answer in quick if answer.status == 200]
                p99 = percentile(ms, 0.99)
                alone = alone or p99
                rows.append(
                    (
                        "with a long one" if background else "short ones alone",
                        f"{percentile(ms, 0.5):.0f}",
                        f"{p99:.0f}",
                        f"{p99 / alone:.2f}",
                        f"{percentile([answer.seconds for answer in slow], 0.5):.2f}",
                        statuses([*quick, *slow]),
                    )
                )
    header = ("", "short p50, ms", "short p99, ms", "p99 / p99 alone", "long, s", "answers")
    title = (
        f"{options.clients} clients with {SHORT_TOKENS} context tokens and pauses of "
        f"{options.pause:g} s; one with {options.tokens}"
    )
    publish("server_fairness", [Table(title, header, rows)], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
