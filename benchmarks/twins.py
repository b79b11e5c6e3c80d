"""Hallucination AUROC between answers and their copies with one error, by kind of error.

python -m benchmarks.twins --data ragbench:data/ragbench [--split dev] [--bundle DIR] [--pairs 60]

``benchmarks.twin_pairs`` has the rules. "Overlap" is the AUROC of counting words instead of a
model: the share of the answer's words that the contexts do not hold. Where it is far above .5, the
kind can be told without reading. "Flagged" are the shares of the right answers and of the wrong
ones that are not adherent, at the bundle's threshold. Intervals are of 95 % and by source document.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.labelled import data_parser, load
from benchmarks.report import Table
from benchmarks.twin_pairs import KINDS, Pair, pairs, share_held
from trivet.evaluation.evaluator import Evaluator
from trivet.measures.curves import BoolArray, FloatArray
from trivet.measures.intervals import Draws, Estimate, auroc, ratio

RESAMPLES = 1000
COLUMNS = (
    "answer",
    "error",
    "pairs",
    "documents",
    "AUROC",
    "in the right order",
    "right flagged",
    "wrong flagged",
    "overlap",
)


def judge(made: Sequence[Pair], evaluator: Evaluator) -> tuple[FloatArray, BoolArray]:
    """Return the hallucination score of each answer and its copy, and whether each is flagged."""
    inputs = [(x.question, x.contexts, x.response) for pair in made for x in pair[1:]]
    verdicts = [evaluator.evaluate(*texts) for texts in inputs]
    # A response is never empty here, so every verdict has a faithfulness.
    scores = np.array([1 - (verdict.faithfulness or 0) for verdict in verdicts])
    return scores, np.array([not verdict.adherent for verdict in verdicts])


def with_interval(estimate: Estimate) -> str:
    """Return a value with its interval, if it has one."""
    at = estimate.interval()
    return f"{estimate.value:.3f}" + (f" [{at[0]:.3f}, {at[1]:.3f}]" if at else "")


def table_row(
    answer: str, kind: str, made: Sequence[Pair], scores: FloatArray, flagged: BoolArray
) -> tuple[str | int, ...]:
    """Return the figures of one kind.

    Args:
        answer: Name of the kind of answers.
        kind: Kind of error.
        made: P pairs.
        scores: Probabilities of hallucination of each answer and its copy. *Shape:* [2P].
        flagged: Whether each is not adherent. *Shape:* [2P].
    """
    if not made:
        return (answer, kind, 0, 0, *["-"] * 5)
    draws = Draws([pair.group for pair in made for _ in range(2)], kind, RESAMPLES)
    rows = np.arange(len(scores))
    changed = rows % 2 == 1
    overlap = np.array(
        [1 - share_held(example) for pair in made for example in (pair.clean, pair.changed)]
    )
    ordered = f"{np.mean(scores[1::2] > scores[::2]):.2f}"
    measured = [auroc(scores, changed)]
    measured += [ratio(flagged & these, these, these) for these in (~changed, changed)]
    cells = []
    for statistic in (*measured, auroc(overlap, changed)):
        cells.append(with_interval(draws.estimate(statistic, rows)))
    return (answer, kind, len(made), draws.count(rows), cells[0], ordered, *cells[1:])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the AUROC and the share of pairs in the right order, by kind."""
    flags = data_parser(__doc__)
    flags.add_argument("--bundle", type=Path)
    flags.add_argument("--pairs", type=int, default=60, help="most pairs of each kind")
    options = flags.parse_args(arguments)
    rows, evaluator = load(options), Evaluator(options.bundle)
    table = Table("", COLUMNS, [])
    for copied in (True, False):
        for kind in KINDS:
            made = pairs(rows, kind, copied, options.pairs)
            answer = "copied" if copied else "answered"
            table.rows.append(table_row(answer, kind, made, *judge(made, evaluator)))
    print(table.to_markdown())


if __name__ == "__main__":
    main()
