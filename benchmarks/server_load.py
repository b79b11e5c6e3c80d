"""Goodput of the server against its backend: few clients and many, overload, cold start.

python -m benchmarks.server_load [--seconds 20] [--bundle DIR] [--backend onnx]

Requests are the fixed sample of ``benchmarks.inputs``. The bare backend runs the same windows in a
process of its own, in turns with the server: call by call with all threads, and one call in each
worker at once, as the server does. Clients have a process too. Goodput counts windows of verdicts.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.backends import BareBackend, recorded_calls, tokenizer_of
from benchmarks.inputs import build_example, sample_requests
from benchmarks.report import Table, publish, spread
from benchmarks.server_clients import (
    Answer,
    Connection,
    closed_loop,
    goodput,
    open_loop,
    percentile,
    post,
    statuses,
)
from benchmarks.server_process import ServerProcess, server_parser, serving
from benchmarks.timing import in_a_process
from trivet.backends.opening import load_backend
from trivet.bundle.bundle import read_bundle
from trivet.evaluation.evaluator import Evaluator
from trivet.settings import BackendName

CLIENTS = (1, 8, 64)
REFUSED_CLIENTS = 200
OVERLOAD = 2.0
# Fills within the benchmark's seconds; the default queue holds a minute of work.
SHORT_QUEUE = ("--max-requests", "64")
TIMEOUT_MS = 3000
_WARM_REQUESTS = 30


def bare_windows_a_second(
    bundle: Path, threads: int, name: BackendName, seconds: float, workers: int | None = None
) -> float:
    """Return the windows a second of the backend alone on the sample."""
    backend = load_backend(read_bundle(bundle), threads, backend=name, workers=workers).backend
    evaluator = Evaluator(bundle, backend=backend)
    with recorded_calls(backend) as calls:
        list(evaluator.evaluate_many(sample_requests(tokenizer_of(bundle))))
    bare = BareBackend(backend)
    done, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        bare.run(calls)
        done += sum(len(windows.input_ids) for windows in calls)
    return done / took


class Bare(NamedTuple):
    """Windows a second of the backend alone: call by call, and with calls at once."""

    serial: float
    at_once: float


def row(clients: str, answers: Sequence[Answer], bare: Bare) -> tuple[str, ...]:
    """Return the table row of one run."""
    good = goodput(answers)
    ms = [1000 * answer.seconds for answer in answers if answer.status == 200]
    return (
        clients,
        f"{good:.1f}",
        f"{100 * good / bare.serial:.0f} %",
        f"{100 * good / bare.at_once:.0f} %",
        f"{percentile(ms, 0.5):.0f}",
        f"{percentile(ms, 0.99):.0f}",
        statuses(answers),
    )


def loads(options: argparse.Namespace) -> list[Table]:
    """Measure goodput by number of clients, under overload, and the time of refusals."""
    requests = [post(example) for example in sample_requests(tokenizer_of(options.bundle))]
    hasty = [
        post(example, timeout_ms=TIMEOUT_MS)
        for example in sample_requests(tokenizer_of(options.bundle))
    ]
    seconds = options.seconds
    bares: list[Bare] = []
    rows, over, refused = [], [], []

    def bare() -> Bare:
        asked = (options.bundle, options.threads, options.backend, seconds / 2)
        alone, many = (
            in_a_process(bare_windows_a_second, *asked, workers) for workers in (1, None)
        )
        bares.append(Bare(alone, many))
        return bares[-1]

    def closed(server: ServerProcess, clients: int) -> list[Answer]:
        return in_a_process(closed_loop, server.port, requests, clients, seconds)

    peak = per_window = 0.0
    for _ in range(options.repeats):
        with serving(options) as server:
            for clients in CLIENTS:
                compared = bare()
                answers = closed(server, clients)
                rows.append(row(str(clients), answers, compared))
                good = goodput(answers)
                if good > peak:
                    fine = [answer for answer in answers if answer.status == 200]
                    peak, per_window = good, len(fine) / sum(answer.windows for answer in fine)
        compared = bare()
        rate = OVERLOAD * peak * per_window
        for name, asked, flags in (
            ("a queue of 64 requests", requests, SHORT_QUEUE),
            (f"timeout_ms {TIMEOUT_MS}", hasty, ()),
        ):
            with serving(options, *flags) as server:
                answers, unsent = in_a_process(open_loop, server.port, asked, rate, seconds)
            line = row(f"{rate:.1f} requests/s, {name}", answers, compared)
            share = goodput(answers) / peak
            over.append((*line, f"{100 * share:.0f} %", unsent))
        with serving(options, *SHORT_QUEUE) as server:
            answers = closed(server, REFUSED_CLIENTS)
        ms = [1000 * answer.seconds for answer in answers if answer.status == 429]
        good = goodput(answers)
        refused.append(
            (
                len(ms),
                f"{percentile(ms, 0.5):.0f}",
                f"{percentile(ms, 0.99):.0f}",
                f"{good:.1f}",
                statuses(answers),
            )
        )
    shares = ("of the backend, call by call", "of it, calls at once")
    header = ("clients", "windows/s", *shares, "p50, ms", "p99, ms", "answers")
    title = (
        f"Goodput; the bare backend, in turns: {spread([bare.serial for bare in bares])} windows/s "
        f"call by call, {spread([bare.at_once for bare in bares])} with calls at once"
    )
    return [
        Table(title, header, list(rows)),
        Table(
            f"Open loop at {OVERLOAD:g} times the peak ({peak:.1f} windows/s)",
            ("requests", *header[1:], "of the peak", "not sent"),
            list(over),
        ),
        Table(
            f"{REFUSED_CLIENTS} clients, a queue of 64 requests",
            ("refused", "429 p50, ms", "429 p99, ms", "windows/s", "answers"),
            list(refused),
        ),
    ]


def starts(options: argparse.Namespace) -> Table:
    """Measure the start of servers, and the first request against later ones."""
    raw = post(build_example(tokenizer_of(options.bundle), 400))
    ready, first, later, ratios = [], [], [], []
    for _ in range(options.starts):
        with serving(options) as server:
            ready.append(server.ready_seconds)
            seconds = [
                answer.seconds for answer in in_a_process(one_after_the_other, server.port, raw)
            ]
        first.append(1000 * seconds[0])
        later.append(1000 * statistics.median(seconds[1:]))
        ratios.append(first[-1] / later[-1])
    rows = [
        ("process start to ready, s", spread(ready, 2)),
        ("first request, ms", spread(first)),
        ("warm median, ms", spread(later)),
        ("first / warm median", spread(ratios, 2)),
    ]
    return Table(f"{options.starts} starts, median (least to most)", ("what", "figure"), rows)


def one_after_the_other(port: int, raw: bytes) -> list[Answer]:
    """Send one request 30 times in a row."""

    async def run() -> list[Answer]:
        connection = Connection()
        answers = [await connection.ask(raw, port) for _ in range(_WARM_REQUESTS)]
        connection.close()
        return answers

    return asyncio.run(run())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print all tables."""
    flags = server_parser(__doc__, repeats=1)
    flags.add_argument("--seconds", type=float, default=20.0, help="seconds of every run")
    flags.add_argument("--starts", type=int, default=5)
    options = flags.parse_args(arguments)
    publish("server_load", [starts(options), *loads(options)], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
