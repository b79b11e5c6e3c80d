"""What padding costs: positions computed for each one that holds a token, on a fixed sample.

python -m benchmarks.padding [--bundle DIR] [--backend int8]

48 requests of log-normal lengths. Windows are filled up to 512; or packed as they come, each call
as wide as its longest; or sorted by length first, which is what the package does; the last also in
steps of 64, as an engine with fixed shapes wants them. ``--backend`` times the second and the third.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.engines import ENGINES, FullEngine, load_engine, tokenizer_of
from benchmarks.inputs import sample_requests
from benchmarks.report import Table, parser, publish, skipped, spread
from benchmarks.timing import Contender, Run, race, timed
from trivet.backends.backend import POSITIONS
from trivet.data.segment_tokenizer import SegmentTokenizer
from trivet.data.tokenization import tokenize_examples
from trivet.data.windows import Layout, Windows, WindowSettings, collate, lay_out, take_windows
from trivet.evaluation.packing import BatchLimits, pack

WIDEST = 512


class Plan(NamedTuple):
    """Which windows share a call, and how wide each call is.

    Attributes:
        calls: Numbers of windows.
        widths: Positions that every window of the call is filled up to.
    """

    calls: list[list[int]]
    widths: list[int]

    def computed(self) -> int:
        """Return the positions of all calls."""
        return sum(len(call) * width for call, width in zip(self.calls, self.widths, strict=True))


def plans(lengths: Sequence[int]) -> dict[str, Plan]:
    """Return the ways to call an engine on windows of these lengths."""
    most = max(1, POSITIONS // WIDEST)
    fixed = [list(range(n, min(n + most, len(lengths)))) for n in range(0, len(lengths), most)]
    arrival: list[list[int]] = []
    for number, length in enumerate(lengths):
        widest = max([length, *(lengths[other] for other in arrival[-1])]) if arrival else length
        if not arrival or widest * (len(arrival[-1]) + 1) > POSITIONS:
            arrival.append([])
        arrival[-1].append(number)
    ordered, stepped = pack(lengths, BatchLimits()), pack(lengths, BatchLimits(step=64))
    return {
        f"filled up to {WIDEST}": Plan(fixed, [WIDEST] * len(fixed)),
        "as they come": Plan(arrival, [max(lengths[n] for n in call) for call in arrival]),
        "sorted by length": Plan(ordered, [max(lengths[n] for n in call) for call in ordered]),
        "sorted, steps of 64": Plan(
            stepped, [-(-max(lengths[n] for n in call) // 64) * 64 for call in stepped]
        ),
    }


def sample_layouts(tokenizer: SegmentTokenizer) -> list[Layout]:
    """Return the fixed sample, cut into windows of at most 512."""
    settings = WindowSettings(WIDEST)
    reads = tokenize_examples(sample_requests(tokenizer), tokenizer)
    return [lay_out(read, settings, tokenizer.special) for read in reads]


def build(folder: Path, engine: str, threads: int) -> Run:
    """Return what runs the whole sample in the calls of the plan that its case names."""
    full = FullEngine(load_engine(folder, engine, threads)[1])
    tokenizer = tokenizer_of(folder)
    layouts = sample_layouts(tokenizer)
    rows = [(layout, row) for layout in layouts for row in range(len(layout.rows))]
    pad = tokenizer.special.pad
    calls: dict[str, list[Windows]] = {}
    for name, plan in plans([len(layout.rows[row]) for layout, row in rows]).items():
        calls[name] = [
            collate(
                [take_windows(layout, [row])[0] for layout, row in (rows[n] for n in call)], pad
            )
            for call in plan.calls
        ]

    def work(name: str) -> None:
        full.run(calls[name])

    return timed(work)


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, and time where an engine is named."""
    flags = parser(__doc__, repeats=5)
    flags.add_argument("--backend", choices=ENGINES, default=None)
    given = flags.parse_args(arguments)
    layouts = sample_layouts(tokenizer_of(given.bundle))
    lengths = [len(row) for layout in layouts for row in layout.rows]
    ways = plans(lengths)
    timings: Mapping[str, str] = {}
    outcome = None
    if given.backend:
        cases = ["as they come", "sorted by length"]
        contender = Contender(given.backend, build, (given.bundle, given.backend, given.threads))
        outcome = race([contender], given.repeats, cases)
        timings = {
            str(case): spread(measured.seconds(), 2)
            for (_, case), measured in outcome.measured.items()
        }
    rows = []
    for name, plan in ways.items():
        share = f"{plan.computed() / sum(lengths):.3f}"
        row = (name, len(plan.calls), plan.computed(), share)
        rows.append((*row, timings.get(name, "")) if timings else row)
    title = f"{len(layouts)} requests, {len(lengths)} windows, {sum(lengths)} tokens:"
    columns = ("windows are", "calls", "positions computed", "computed / useful", "seconds")
    header = columns if timings else columns[:-1]
    publish("padding", [Table(title, header, rows), skipped(outcome) if outcome else None], given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
