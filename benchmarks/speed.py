"""Luna's Table 6: seconds for one request of 4k context tokens, and of 16k, from text to verdict.

python -m benchmarks.speed [--bundle DIR] [--lengths 4096 16384] [--other 100]

All engines of the bundle in one run, in turns; every one gives all scores, where Luna (arXiv
2406.00975) gives one. The tokens of question and response are repeated in every window, so they are
part of the figure: ``--other 300`` is another one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.engines import ENGINES, about_weights
from benchmarks.inputs import OTHER_TOKENS
from benchmarks.pipeline import STAGES, build
from benchmarks.report import Table, parser, publish, skipped, spread
from benchmarks.timing import Contender, race


def main(arguments: Sequence[str] | None = None) -> int:
    """Time every engine on every length."""
    flags = parser(__doc__, repeats=5)
    flags.add_argument("--lengths", type=int, nargs="+", default=[4096, 16384])
    flags.add_argument("--other", type=int, default=OTHER_TOKENS, help="question and response")
    flags.add_argument("--backends", nargs="+", choices=ENGINES, default=["int8", "fp32", "torch"])
    given = flags.parse_args(arguments)
    contenders = [
        Contender(engine, build, (given.bundle, engine, given.threads, given.other))
        for engine in given.backends
    ]
    outcome = race(contenders, given.repeats, given.lengths)
    rows = []
    for (engine, _), measured in outcome.measured.items():
        first = measured.samples[0]
        stages = " / ".join(f"{1000 * measured.median(stage):.0f}" for stage in STAGES)
        rows.append(
            (
                engine,
                *(round(first[name]) for name in ("context_tokens", "other_tokens", "windows")),
                spread(measured.seconds(), 3),
                stages,
                round(measured.peak_mb),
            )
        )
    header = (
        "engine",
        "context tokens",
        "question + response",
        "windows",
        "seconds (least to most)",
        "tokenize / lay out / engine / join / verdict, ms",
        "peak MB",
    )
    publish(
        "speed",
        [Table("", header, rows), about_weights(given.bundle, given.backends), skipped(outcome)],
        given,
    )
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
