"""Tokenize, infer, finish, timed apart; and the host's work against its naive form.

python -m benchmarks.stages [--bundle DIR] [--backend int8] [--lengths 4096 16384]

The first table has the stages of a whole request. The second has the host's work alone, no engine
between: as the package does it, and with every window tokenized anew and joined in Python's loops.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.engines import ENGINES
from benchmarks.inputs import OTHER_TOKENS, build_example
from benchmarks.naive import join_in_loops, read_window_by_window
from benchmarks.pipeline import HOST, STAGES, NoEngine, Pipeline, build
from benchmarks.report import Table, milliseconds, parser, publish, skipped, spread
from benchmarks.timing import Contender, Measured, Run, race
from trivet.bundle.bundle import read_bundle
from trivet.records import RagExample


def build_host(folder: Path, naive: bool) -> Run:
    """Return what does the host's work on as many context tokens as its case says."""
    pipeline = Pipeline(read_bundle(folder), NoEngine())
    examples: dict[int, RagExample] = {}

    def run(context_tokens: int) -> Mapping[str, float]:
        if context_tokens not in examples:
            examples[context_tokens] = build_example(
                pipeline.tokenizer, context_tokens, OTHER_TOKENS
            )
        example = examples[context_tokens]
        return _naively(pipeline, example) if naive else pipeline.time(example)

    return run


def _naively(pipeline: Pipeline, example: RagExample) -> Mapping[str, float]:
    """Do the same naively; what only finds the slices is not counted."""
    read = pipeline.read(example)
    layout = pipeline.lay_out(read)
    width = max(len(row) for row in layout.rows)
    probs = np.full((3, len(layout.rows), width), 0.5, dtype=np.float32)
    started = time.perf_counter()
    read_window_by_window(example, read, layout, pipeline.tokenizer)
    tokenized = time.perf_counter()
    join_in_loops(layout, probs)
    ended = time.perf_counter()
    return {
        "total": ended - started,
        "tokenize": tokenized - started,
        "lay_out": 0.0,
        "join": ended - tokenized,
        "verdict": 0.0,
    }


def host_seconds(measured: Measured) -> list[float]:
    """Return every round's seconds of tokenizing, cutting and joining."""
    stages = ("tokenize", "lay_out", "join")
    return [sum(sample[stage] for stage in stages) for sample in measured.samples]


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the stages of the engine's requests, then the host alone."""
    flags = parser(__doc__, repeats=9)
    flags.add_argument("--lengths", type=int, nargs="+", default=[4096, 16384])
    flags.add_argument("--backend", choices=ENGINES, default="int8")
    given = flags.parse_args(arguments)
    whole = race(
        [Contender(given.backend, build, (given.bundle, given.backend, given.threads))],
        given.repeats,
        given.lengths,
    )
    host = race(
        [
            Contender("as here", build_host, (given.bundle, False)),
            Contender("naive", build_host, (given.bundle, True)),
        ],
        given.repeats,
        given.lengths,
    )
    stages = [
        (
            length,
            *(milliseconds(measured.seconds(stage)) for stage in STAGES),
            f"{100 * sum(map(measured.median, HOST)) / measured.median():.1f} %",
        )
        for (_, length), measured in whole.measured.items()
    ]
    against = []
    for length in given.lengths:
        ours = host_seconds(host.measured["as here", length])
        naive = host_seconds(host.measured["naive", length])
        ratios = [slow / fast for slow, fast in zip(naive, ours, strict=True)]
        against.append((length, milliseconds(ours), milliseconds(naive), spread(ratios, 2)))
    named = tuple(f"{stage.replace('_', ' ')}, ms" for stage in STAGES)
    publish(
        "stages",
        [
            Table(
                f"A request on {given.backend}:", ("context tokens", *named, "host share"), stages
            ),
            skipped(whole),
            Table(
                "The host alone, tokenize + lay out + join:",
                ("context tokens", "as here, ms", "naive, ms", "naive / here"),
                against,
            ),
        ],
        given,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
