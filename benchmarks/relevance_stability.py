"""How far a passage's relevance moves when the answer is replaced by another one or by none.

python -m benchmarks.relevance_stability --data ragbench:data/ragbench [--split dev] [--bundle DIR]
    [--limit 200]

Relevance is defined on question and passage, so no answer should move it. Every row is judged with
its own answer, with none, with a refusal, with another row's answer, and with a changed copy of its
own. The aim: 95 % of the passages move by at most .1 in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.labelled import data_parser, load
from benchmarks.report import Table
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.augmentation.augment import are_related
from trivet.labelled.augmentation.twins import make_twin
from trivet.records import Evaluation, LabelledExample, RagExample

LARGEST_MOVE = 0.1
REFUSAL = "The passages do not contain the answer."

Rows = Sequence[LabelledExample]


def without_answer(rows: Rows) -> list[RagExample | None]:
    """Return the examples without a response."""
    return [replace(row.example, response="", response_sentences=None) for row in rows]


def refused(rows: Rows) -> list[RagExample | None]:
    """Return the examples with a refusal as response."""
    return [replace(row.example, response=REFUSAL, response_sentences=None) for row in rows]


def with_foreign_answer(rows: Rows) -> list[RagExample | None]:
    """Return the examples with the response of the next unrelated row."""
    replaced: list[RagExample | None] = []
    for number, row in enumerate(rows):
        others = (*rows[number + 1 :], *rows[:number])
        other = next((other.example for other in others if not are_related(row, other)), None)
        replaced.append(
            None
            if other is None
            else replace(row.example, response=other.response, response_sentences=None)
        )
    return replaced


def changed(rows: Rows) -> list[RagExample | None]:
    """Return copies with one wrong value or negation in the response, where one can be made."""
    copies: list[RagExample | None] = []
    for number, row in enumerate(rows):
        twin = make_twin(row, np.random.default_rng(number))
        same = twin is not None and twin.example.contexts == row.example.contexts
        copies.append(twin.example if twin is not None and same else None)
    return copies


REPLACED: dict[str, Callable[[Rows], list[RagExample | None]]] = {
    "none": without_answer,
    "a refusal": refused,
    "another row's": with_foreign_answer,
    "a changed copy": changed,
}


def moves(evaluator: Evaluator, rows: Rows, others: Sequence[RagExample | None]) -> list[float]:
    """Return the absolute change of each passage's relevance."""
    pairs = [(row.example, other) for row, other in zip(rows, others, strict=True) if other]
    unchanged, replaced = (
        list(evaluator.evaluate_many(examples)) for examples in zip(*pairs, strict=True)
    )
    return [
        abs(before.relevance - after.relevance)
        for verdict, other in zip(unchanged, replaced, strict=True)
        if isinstance(verdict, Evaluation) and isinstance(other, Evaluation)
        for before, after in zip(verdict.contexts, other.contexts, strict=True)
        if before.relevance is not None and after.relevance is not None
    ]


def table(evaluator: Evaluator, rows: Rows) -> Table:
    """Measure every replacement."""
    lines: list[tuple[str, ...]] = []
    for name, make in REPLACED.items():
        changes = np.array(moves(evaluator, rows, make(rows)))
        within = float((changes <= LARGEST_MOVE).mean())
        lines.append((name, f"{len(changes):,}", f"{within:.3f}", f"{changes.mean():.3f}"))
    head = ("answer replaced by", "passages", f"moved by at most {LARGEST_MOVE}", "mean move")
    return Table("relevance of a passage", head, lines)


if __name__ == "__main__":
    flags = data_parser(__doc__)
    flags.add_argument("--bundle", type=Path)
    flags.add_argument("--limit", type=int)
    options = flags.parse_args()
    labelled = load(options)[: options.limit]
    print(table(Evaluator(options.bundle), labelled).to_markdown())
