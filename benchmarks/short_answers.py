"""Hallucination AUROC of invented answers, each with a copy with one error.

python -m benchmarks.short_answers [--pairs FILE] [--bundle DIR]

``short_answers.jsonl`` in this folder has the pairs: invented passages, and short answers in
other words than theirs, written by a language model that saw neither Trivet nor data sets. About
half of the wrong numbers and dates stand nowhere in the passages, the other half stand there for
something else. ``answer_forms.jsonl``, for ``--pairs``, has pairs in many forms: names and values
alone, values written otherwise than in the passages, answers from tables and other structured
texts, and answers as chatbots give them, with headings, lists, tables and remarks. The columns are
those of ``benchmarks.twins``; pairs on the same passages count as one document.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.report import Table
from benchmarks.twin_pairs import Pair
from benchmarks.twins import COLUMNS, judge, table_row
from trivet.evaluation.evaluator import Evaluator
from trivet.records import RagExample

PAIRS = Path(__file__).with_suffix(".jsonl")


def read_pairs(path: Path = PAIRS) -> dict[str, list[Pair]]:
    """Return the pairs by kind; those on the same passages are of one document."""
    by_kind: dict[str, list[Pair]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        clean, changed = (
            RagExample(row["question"], tuple(row["contexts"]), row[answer])
            for answer in ("right", "wrong")
        )
        by_kind.setdefault(row["kind"], []).append(Pair("\n".join(row["contexts"]), clean, changed))
    return by_kind


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line for each kind, and one for all."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--pairs", type=Path, default=PAIRS, help="file of the pairs")
    flags.add_argument("--bundle", type=Path)
    options = flags.parse_args(arguments)
    evaluator, kinds = Evaluator(options.bundle), read_pairs(options.pairs)
    judged = {kind: judge(made, evaluator) for kind, made in kinds.items()}
    rows = [table_row("invented", kind, made, *judged[kind]) for kind, made in kinds.items()]
    scores, flagged = (np.concatenate(parts) for parts in zip(*judged.values(), strict=True))
    every = [pair for made in kinds.values() for pair in made]
    rows.append(table_row("invented", "all", every, scores, flagged))
    print(Table("", COLUMNS, rows).to_markdown())


if __name__ == "__main__":
    main()
