"""Parts of ``trivet adapt``: the split by source document, the comparison, and what it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from trivet.ablation.comparison import MEASURES, join_sets, measure_runs
from trivet.errors import DataError
from trivet.heads import DEFAULT_HEADS, HEADS
from trivet.labelled.grouping import document, group_by_documents, shares_text, text_digests
from trivet.measures.intervals import Estimate
from trivet.measures.predictions import Prediction
from trivet.records import LabelledExample, Labels

if TYPE_CHECKING:
    from rich.table import Table

TRAIN, VALIDATION, TEST = "train", "validation", "test"
PARTS = (TRAIN, VALIDATION, TEST)
LEAST_DOCUMENTS = {TRAIN: 10, VALIDATION: 5, TEST: 10}
"""Fewest documents of each part."""
# First part of the name of each score's measure.
_SCORES = {
    HEADS[name].verdict[0]: HEADS[name].measure[1].rpartition("_")[0] for name in DEFAULT_HEADS
}
_SHARES = {VALIDATION: 0.15, TEST: 0.3}  # of the rows
_LARGEST_SHARE = 0.1  # of the rows that documents with common passages may bring together


def split_by_document(rows: Sequence[LabelledExample], name: str) -> list[LabelledExample]:
    """Return the labelled rows, each with its document as group and its part as split.

    Groups that share a passage become one document, unless it would hold more than a tenth of the
    rows. Rows whose split is already ``test`` are the test part, if there are any; other rows of
    their documents are left out.

    Args:
        rows: Labelled rows; those without any label are left out.
        name: Name of the rows, for errors.

    Raises:
        DataError: There are too few documents; the message has the numbers.
    """
    rows = [row for row in rows if row.labels != Labels()]
    documents, _ = group_by_documents(
        [document(row) for row in rows],
        [row.example.contexts for row in rows],
        largest=int(_LARGEST_SHARE * len(rows)),
    )
    own_test = {
        document for row, document in zip(rows, documents, strict=True) if row.split == TEST
    }
    sizes = Counter(document for document in documents if document not in own_test)
    parts = _deal(sizes, not own_test) | dict.fromkeys(own_test, TEST)
    counts = {part: list(parts.values()).count(part) for part in PARTS}
    if any(counts[part] < least for part, least in LEAST_DOCUMENTS.items()):
        needed = ", ".join(f"{least} {part}" for part, least in LEAST_DOCUMENTS.items())
        counted = ", ".join(f"{counts[part]} {part}" for part in PARTS)
        raise DataError(
            f"{name}: {len(rows)} labelled rows of {len(set(documents))} documents are too few to "
            f"split: at least {needed} documents are needed, and these give {counted}; label rows "
            "of more documents, or use trivet calibrate"
        )
    return [
        replace(row, group=document, split=parts[document])
        for row, document in zip(rows, documents, strict=True)
        if document not in own_test or row.split == TEST
    ]


def _deal(sizes: Mapping[str, int], hold_out: bool) -> dict[str, str]:
    """Return the part of each document, given its number of rows."""
    order = np.random.default_rng(0).permutation(sorted(sizes)).tolist()
    parts: dict[str, str] = {}
    for part in (TEST, VALIDATION) if hold_out else (VALIDATION,):
        documents = rows = 0
        while order and (
            documents < LEAST_DOCUMENTS[part] or rows < _SHARES[part] * sum(sizes.values())
        ):
            parts[order[-1]] = part
            documents, rows = documents + 1, rows + sizes[order.pop()]
    return parts | dict.fromkeys(order, TRAIN)


def count_parts(rows: Sequence[LabelledExample]) -> Mapping[str, tuple[int, int]]:
    """Return the numbers of rows and of documents of each part."""
    return {
        part: (len(here), len({row.group for row in here}))
        for part in PARTS
        for here in [[row for row in rows if row.split == part]]
    }


def count_shared(rows: Sequence[LabelledExample]) -> int:
    """Return the number of test rows that share a passage or a question with the other parts."""
    known = text_digests(row for row in rows if row.split != TEST)
    return sum(shares_text(row, known) for row in rows if row.split == TEST)


Outcome = Literal["better", "worse", "no difference shown"]
# Its threshold is chosen on the measured rows, so it says nothing about a new answer.
_LEFT_OUT = "hallucination_f1_best_threshold"


@dataclass(frozen=True)
class Change:
    """One measure before and after, and their paired difference."""

    measure: str  # name, as in ``trivet.measures.metrics``
    before: float | None  # value of the first bundle; None where undefined
    after: float | None  # value of the second
    # 2.5th percentile of ``after - before`` over resampled documents; None without an interval
    low: float | None
    high: float | None  # 97.5th percentile
    n: int  # rows measured
    positives: int | None  # rows of the positive class; None without classes
    documents: int  # source documents of these rows

    @property
    def outcome(self) -> Outcome:
        """Side of 0 on which the whole interval lies."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return "no difference shown"
        return "better" if (self.low > 0) == MEASURES[self.measure] else "worse"


def compare_bundles(before: Sequence[Prediction], after: Sequence[Prediction]) -> list[Change]:
    """Return each measure with a known truth, over the rows that both bundles evaluated.

    Sources are pooled: together they are the domain. A row without a verdict of one bundle is left
    out for both.
    """
    changes = []
    for compared in join_sets([measure_runs([before, after], "all")], "", "all", True):
        if compared.measure == _LEFT_OUT:
            continue
        first, second = compared.estimates
        both = first.value is not None and second.value is not None
        value = (second.value or 0) - (first.value or 0) if both else None
        interval = Estimate(value, second.resampled - first.resampled).interval()
        low, high = interval or (None, None)
        values = (compared.measure, first.value, second.value, low, high)
        changes.append(Change(*values, compared.n, compared.positives, compared.groups))
    return changes


def is_better(changes: Sequence[Change]) -> bool:
    """Tell whether at least one measure is better and none is worse."""
    outcomes = {change.outcome for change in changes}
    return "better" in outcomes and "worse" not in outcomes


@dataclass(frozen=True)
class Adapted:
    """The result of an adaptation."""

    bundle: Path  # folder of the adapted model
    start: str  # bundle that training started from
    parts: Mapping[str, tuple[int, int]]  # numbers of rows and of documents of each part
    shared: int  # test rows that share a passage or a question with the other parts
    changes: Sequence[Change]  # measures on the test part before and after
    minutes: float

    @property
    def unmeasured(self) -> list[str]:
        """Scores for which the test part has no labels."""
        measured = {change.measure.partition("_")[0] for change in self.changes}
        return [score for score, name in _SCORES.items() if name not in measured]

    @property
    def better(self) -> bool:
        """Whether at least one measure is better and none is worse, beyond the intervals."""
        return is_better(self.changes)


def render_changes(adapted: Adapted) -> Table:
    """Return a table of the measures before and after."""
    from rich.table import Table

    from trivet.report.terminal import number

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("measure", no_wrap=True)
    for name in ("before", "after", "95 % of the difference", "n", "positives", "documents"):
        table.add_column(name, justify="right")
    table.add_column("outcome")
    for change in adapted.changes:
        interval = "-" if change.low is None else f"{change.low:+.3f} to {change.high:+.3f}"
        counts = (change.n, "-" if change.positives is None else change.positives, change.documents)
        values = (change.measure, number(change.before), number(change.after), interval)
        table.add_row(*values, *map(str, counts), change.outcome)
    return table


def describe(adapted: Adapted) -> str:
    """Return the parts, the leaks, what was not measured, and the cost, one a line."""
    parts = "; ".join(
        f"{part}: {rows} rows of {documents} documents"
        for part, (rows, documents) in adapted.parts.items()
    )
    of = f"of {adapted.parts['test'][0]} test rows"
    lines = [parts, f"{adapted.shared} {of} share a passage or a question with other parts"]
    if adapted.unmeasured:
        lines.append(
            f"not measured, because no test row has a label: {', '.join(adapted.unmeasured)}; "
            "training may have changed it"
        )
    lines.append(f"took {adapted.minutes:.1f} minutes")
    return "\n".join(lines)
