"""Support of right and wrong answers by the share of their words that the contexts hold.

python -m benchmarks.copied_share --data jsonl:training_data/statements.jsonl.xz [--split dev]
    [--bundle DIR] [--limit 4000]

A judge that compares words falls off a cliff: a changed value is seen in a copied sentence and not
in a reworded one. The statements have both, so each line of the table is one share of held words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.labelled import data_parser, load
from benchmarks.report import Table
from benchmarks.twin_pairs import share_held
from benchmarks.twins import with_interval
from trivet.evaluation.evaluator import Evaluator
from trivet.measures.intervals import Draws, auroc
from trivet.records import Evaluation

# Lower ends of the shares of held words.
SHARES = (0.0, 0.5, 0.65, 0.8, 0.9, 1.0)
RESAMPLES = 1000


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    flags = data_parser(__doc__)
    flags.add_argument("--bundle", type=Path)
    flags.add_argument("--limit", type=int, default=4000)
    options = flags.parse_args(arguments)
    rows = [row for row in load(options) if row.labels.adherent is not None][: options.limit]
    results = list(Evaluator(options.bundle).evaluate_many([row.example for row in rows]))
    kept = [n for n, result in enumerate(results) if isinstance(result, Evaluation)]
    rows = [rows[n] for n in kept]
    support = np.array([getattr(results[n], "faithfulness", None) or 0.0 for n in kept])
    wrong = np.array([row.labels.adherent is False for row in rows])
    held = np.array([share_held(row.example) for row in rows])
    table = Table("", ("words held", "right", "wrong", "support of right", "of wrong", "AUROC"), [])
    for low, high in zip(SHARES, (*SHARES[1:], 2.0), strict=True):
        chosen = np.flatnonzero((held >= low) & (held < high))
        if len(set(wrong[chosen].tolist())) < 2:
            continue
        ours = support[chosen]
        draws = Draws([rows[n].group or str(n) for n in chosen], "share", RESAMPLES)
        estimate = draws.estimate(auroc(1 - ours, wrong[chosen]), np.arange(len(chosen)))
        name = "all" if low == 1 else f"{low:.0%} to {high:.0%}"
        counts = (int((~wrong[chosen]).sum()), int(wrong[chosen].sum()))
        means = (f"{ours[~wrong[chosen]].mean():.2f}", f"{ours[wrong[chosen]].mean():.2f}")
        table.rows.append((name, *counts, *means, with_interval(estimate)))
    print(table.to_markdown())


if __name__ == "__main__":
    main()
