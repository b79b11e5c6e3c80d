"""Seconds of one request of 4k and of 16k context tokens, from text to verdict, by backend.

python -m benchmarks.speed [--bundle DIR] [--lengths 4096 16384] [--other 100]

The request is that of Luna's Table 6 (arXiv 2406.00975), which has one score where these are all
scores. Every window repeats the question and the response, so their length (``--other``) matters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.backends import BACKENDS, CallClock, load_named, tokenizer_of
from benchmarks.inputs import OTHER_TOKENS, build_example
from benchmarks.report import Table, parser, publish, skipped, spread
from benchmarks.timing import Contender, Run, race
from trivet.data.tokenization import TokenizedExample, tokenize_examples
from trivet.evaluation.evaluator import Evaluator
from trivet.records import RagExample

STAGES = ("tokenize", "backend", "rest")


def build(folder: Path, name: str, threads: int, other_tokens: int = OTHER_TOKENS) -> Run:
    """Return a ``Run`` that evaluates an example; its case is the number of context tokens.

    A sample has the seconds of the whole call and of the backend, those of tokenizing (measured
    apart), the rest, the processor time, which other load on the machine changes least, and the
    example's sizes.
    """
    _, backend = load_named(folder, name, threads)
    clock, tokenizer = CallClock(backend), tokenizer_of(folder)
    evaluator = Evaluator(folder, backend=backend)
    made: dict[int, tuple[RagExample, TokenizedExample]] = {}

    def run(context_tokens: int) -> Mapping[str, float]:
        if context_tokens not in made:
            example = build_example(tokenizer, context_tokens, other_tokens)
            made[context_tokens] = example, tokenize_examples([example], tokenizer)[0]
        example, tokens = made[context_tokens]
        started = time.perf_counter()
        tokenize_examples([example], tokenizer)
        tokenized = time.perf_counter() - started
        clock.seconds, started, used = 0.0, time.perf_counter(), time.process_time()
        verdict = evaluator.evaluate(example.question, example.contexts, example.response)
        total = time.perf_counter() - started
        return {
            "total": total,
            "processor": time.process_time() - used,
            "tokenize": tokenized,
            "backend": clock.seconds,
            "rest": max(0.0, total - tokenized - clock.seconds),
            "context_tokens": len(tokens.context),
            "other_tokens": len(tokens.question) + len(tokens.response),
            "windows": verdict.windows,
        }

    return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Time every backend on every length."""
    flags = parser(__doc__, repeats=5)
    flags.add_argument("--lengths", type=int, nargs="+", default=[4096, 16384])
    flags.add_argument("--other", type=int, default=OTHER_TOKENS, help="question and response")
    flags.add_argument("--backends", nargs="+", choices=BACKENDS, default=["int8", "fp32", "torch"])
    options = flags.parse_args(arguments)
    contenders = [
        Contender(name, build, (options.bundle, name, options.threads, options.other))
        for name in options.backends
    ]
    outcome = race(contenders, options.repeats, options.lengths)
    rows = []
    for (name, _), measured in outcome.measured.items():
        first = measured.samples[0]
        sizes = (round(first[size]) for size in ("context_tokens", "other_tokens", "windows"))
        stages = " / ".join(f"{1000 * measured.median(stage):.0f}" for stage in STAGES)
        processor = spread(measured.seconds("processor"), 3)
        seconds = spread(measured.seconds(), 3)
        rows.append((name, *sizes, seconds, processor, stages, round(measured.peak_mb)))
    header = (
        "backend",
        "context tokens",
        "question + response",
        "windows",
        "seconds (least to most)",
        "processor seconds",
        "tokenize / backend / rest, ms",
        "peak MB",
    )
    publish("speed", [Table("", header, rows), skipped(outcome)], options)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
