"""How many verdicts flip when nothing that matters has changed.

python -m benchmarks.stability --data ragtruth:data/ragtruth [--split dev] [--bundle DIR]
    [--limit 200]

``again``: a second run. ``white space``: spaces and a line end after the response. ``other form``:
the response's first line as a heading, and 12000 for 12,000 in it. ``permuted``: the contexts in a
random order. ``foreign passage``: one of an unrelated row, at a random place. ``fp32``: the weights
in torch instead of the graph. The last four move the texts in the windows or the last digits, so
that a response near the threshold may flip. ``benchmarks.swapped_contexts`` measures what the
contexts mean to the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.labelled import data_parser, load
from benchmarks.report import Table
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.augmentation.augment import lengthen
from trivet.records import Evaluation, FailedEvaluation, LabelledExample, RagExample

_DIGIT_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")

Verdicts = Sequence[Evaluation | FailedEvaluation]


class Flips(NamedTuple):
    """Differences between the verdicts on two forms of the same responses."""

    responses: int  # with a verdict in both
    to_unsupported: int  # adherent first, then not
    to_supported: int
    mean: float  # of the absolute changes of faithfulness
    largest: float


def count_flips(before: Verdicts, after: Verdicts) -> Flips:
    """Compare verdicts in the same order; failures and empty responses are left out."""
    pairs = [
        (old, new)
        for old, new in zip(before, after, strict=True)
        if isinstance(old, Evaluation) and isinstance(new, Evaluation)
        if old.faithfulness is not None and new.faithfulness is not None
    ]
    moves = [abs((new.faithfulness or 0) - (old.faithfulness or 0)) for old, new in pairs]
    return Flips(
        len(pairs),
        sum(bool(old.adherent) and not new.adherent for old, new in pairs),
        sum(bool(new.adherent) and not old.adherent for old, new in pairs),
        float(np.mean(moves)) if moves else 0.0,
        max(moves, default=0.0),
    )


def permuted(rows: Sequence[LabelledExample]) -> list[RagExample]:
    """Return the examples with their contexts in a random order, the same in every run."""
    examples = []
    for number, row in enumerate(rows):
        example = row.example
        order = np.random.default_rng(number).permutation(len(example.contexts)).tolist()
        sentences = example.context_sentences
        examples.append(
            replace(
                example,
                contexts=tuple(example.contexts[index] for index in order),
                context_sentences=sentences and tuple(sentences[index] for index in order),
            )
        )
    return examples


def with_white_space(rows: Sequence[LabelledExample]) -> list[RagExample]:
    """Return the examples with white space after the response."""
    return [replace(row.example, response=f"{row.example.response}  \n") for row in rows]


def in_other_form(rows: Sequence[LabelledExample]) -> list[RagExample]:
    """Return the examples with a heading as the first line, and without commas in numbers."""
    changed = [f"## {_DIGIT_GROUPS.sub('', row.example.response)}" for row in rows]
    return [
        replace(row.example, response=response, response_sentences=None)
        for row, response in zip(rows, changed, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the flips of each change."""
    flags = data_parser(__doc__)
    flags.add_argument("--bundle", type=Path)
    flags.add_argument("--limit", type=int, help="number of rows; all by default")
    options = flags.parse_args(arguments)
    rows = load(options)[: options.limit]
    plain = [row.example for row in rows]
    evaluator = Evaluator(options.bundle)

    def judge(examples: Sequence[RagExample], by: Evaluator = evaluator) -> Verdicts:
        return list(by.evaluate_many(examples))

    before = judge(plain)
    changes: dict[str, Callable[[], Verdicts]] = {
        "again": lambda: judge(plain, Evaluator(options.bundle)),
        "white space": lambda: judge(with_white_space(rows)),
        "other form": lambda: judge(in_other_form(rows)),
        "permuted": lambda: judge(permuted(rows)),
        "foreign passage": lambda: judge([row.example for row in lengthen(rows, 1, seed=0)]),
        "fp32": lambda: judge(plain, Evaluator(options.bundle, backend="torch", device="cpu")),
    }
    header = ("change", "responses", "to unsupported", "to supported", "flips", "mean", "largest")
    table = Table("Flips of the verdict, and changes of faithfulness", header, [])
    for name, run in changes.items():
        counted = count_flips(before, run())
        flips = (counted.to_unsupported + counted.to_supported) / max(1, counted.responses)
        counts = (counted.responses, counted.to_unsupported, counted.to_supported)
        moves = (f"{flips:.1%}", f"{counted.mean:.4f}", f"{counted.largest:.3f}")
        table.rows.append((name, *counts, *moves))
    print(table.to_markdown())


if __name__ == "__main__":
    main()
