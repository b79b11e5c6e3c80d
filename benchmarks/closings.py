"""How often a sentence that is appended to a faithful answer is flagged.

python -m benchmarks.closings --data ragtruth:data/ragtruth [--split dev] [--bundle DIR]

``closings.jsonl`` beside this file has three kinds: remarks, which state nothing ("Do you want me
to make a table of the opening hours?"), claims in the form of remarks ("Did you know that the
bridge was rebuilt in 1820?") and short made-up statements ("The mayor opposed the plan."). Language
models wrote them, remarks and claims without having seen those of the training. Each is appended to
some of the rows' faithful answers that are not flagged without it. The right share of flagged
answers is 0 for remarks and 1 for the others. AUROCs are of the added sentences' support.
Intervals are of 95 % and by source document.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.labelled import data_parser, load
from benchmarks.report import Table
from benchmarks.twins import RESAMPLES, with_interval
from trivet.evaluation.evaluator import Evaluator
from trivet.measures.intervals import Draws, Statistic, auroc, ratio
from trivet.records import Evaluation, FailedEvaluation, LabelledExample, RagExample

CLOSINGS = Path(__file__).with_suffix(".jsonl")


def read_closings(path: Path = CLOSINGS) -> dict[str, list[str]]:
    """Return the texts of each kind, remarks first."""
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["kind"], []).append(row["text"])
    return found


def with_closing(example: RagExample, text: str) -> RagExample:
    """Return the example with one more sentence in its response."""
    response = f"{example.response.rstrip()} {text}"
    return replace(example, response=response, response_sentences=None)


def judged(evaluator: Evaluator, examples: Sequence[RagExample]) -> list[Evaluation]:
    """Return the verdicts.

    Raises:
        ValueError: A row has none.
    """
    found = []
    for one in evaluator.evaluate_many(examples):
        if isinstance(one, FailedEvaluation):
            raise ValueError(f"row {one.id}: {one.message}")
        found.append(one)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the share of flagged answers of each kind."""
    flags = data_parser(__doc__)
    flags.add_argument("--bundle", type=Path)
    given = flags.parse_args(arguments)
    evaluator = Evaluator(given.bundle)
    rows = [row for row in load(given) if row.labels.adherent and row.example.response.strip()]
    plain = judged(evaluator, [row.example for row in rows])
    kept: list[LabelledExample] = [r for r, v in zip(rows, plain, strict=True) if v.adherent]
    groups = [row.group for row in kept]
    table = Table("", ("closing", "answers", "flagged", "AUROC against remarks"), [])
    every = np.ones(len(kept))
    remarks = np.empty(0)
    for kind, texts in read_closings().items():
        ended = [with_closing(r.example, texts[n % len(texts)]) for n, r in enumerate(kept)]
        verdicts = judged(evaluator, ended)
        supports = np.array([verdict.sentences[-1].support for verdict in verdicts])
        share = ratio(np.array([float(not v.adherent) for v in verdicts]), every, every)
        separation = ""
        if kind == "remark":
            remarks = supports
        else:
            is_false = np.repeat([False, True], len(kept))
            order = auroc(1 - np.append(remarks, supports), is_false)
            separation = _estimate(order, 2 * groups)
        table.rows.append((kind, len(kept), _estimate(share, groups), separation))
    print(table.to_markdown())


def _estimate(statistic: Statistic, groups: Sequence[str]) -> str:
    draws = Draws(groups, "closings", RESAMPLES)
    return with_interval(draws.estimate(statistic, np.arange(len(groups))))


if __name__ == "__main__":
    main()
