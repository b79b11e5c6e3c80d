"""Pairs of a right and a wrong response to the same contexts, which teach each other's difference.

Edited by people, or two answers of models to one source; and a right answer and its twin
(``labelled.augmentation.twins``).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from trivet.records import LabelledExample


def batch_units(rows: Sequence[LabelledExample]) -> list[tuple[int, ...]]:
    """Return the rows that share a batch: pairs of a right and a wrong one, and single rows.

    A row is in one unit. Those of a pair have the same source, question and contexts.
    """
    units = []
    groups: defaultdict[Any, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        groups[row.source, row.draws, row.example.question, _contexts(row)].append(number)
    for members in groups.values():
        right = [number for number in members if rows[number].labels.adherent is True]
        wrong = [number for number in members if rows[number].labels.adherent is False]
        pairs = list(zip(right, wrong, strict=False))
        paired = {number for pair in pairs for number in pair}
        units += [*pairs, *((number,) for number in members if number not in paired)]
    return sorted(units)


def right_and_wrong(
    rows: Sequence[LabelledExample], adherent: Sequence[int]
) -> list[tuple[int, int]]:
    """Return every (right, wrong) pair of some rows with the same contexts in any order.

    ``adherent`` has 1, 0 or -1 (unknown) for each row; an empty response is in no pair.
    """
    groups: defaultdict[tuple[str, ...], tuple[list[int], list[int]]]
    groups = defaultdict(lambda: ([], []))
    for number, (row, known) in enumerate(zip(rows, adherent, strict=True)):
        if known >= 0 and row.example.response.strip():
            groups[_contexts(row)][known].append(number)
    return [pair for wrong, right in groups.values() for pair in itertools.product(right, wrong)]


def _contexts(row: LabelledExample) -> tuple[str, ...]:
    return tuple(sorted(row.example.contexts))
