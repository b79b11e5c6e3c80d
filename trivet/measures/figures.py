"""A measured figure, and figures as JSON and as a table. How they are measured stands elsewhere."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

HEADER = (
    "source",
    "measure",
    "value",
    "95 % interval",
    "n",
    "positives",
    "groups",
    "failed",
    "note",
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with everything needed to trust it or not. Every number is finite or ``None``.

    Attributes:
        measure: ``hallucination_auroc``, ``relevance_rmse``... see `trivet.measures.metrics`.
        source: The source measured, or ``FAMILY/mean``, ``FAMILY/pooled``.
        value: The figure; ``None`` where it is undefined, and then ``note`` says why.
        low: 2.5th percentile of the bootstrap; ``None`` where there is no honest interval.
        high: 97.5th percentile.
        n: How many rows the value was computed on.
        positives: How many of them hold the positive class; ``None`` for a measure without classes.
        groups: How many source documents the ``n`` rows come from: what was resampled.
        failed: How many more rows have a known truth but no verdict; they are in no other number.
        note: Why something is undefined, or how to read the value.
        generator: Set where the rows of one generator alone were measured.
        length: Set where the rows of one length alone were measured, see `trivet.measures.lengths`.
    """

    measure: str
    source: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    positives: int | None
    groups: int
    failed: int
    note: str | None = None
    generator: str | None = None
    length: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the figure as plain numbers, strings and ``None``."""
        return dataclasses.asdict(self)

    def to_cells(self) -> tuple[str, ...]:
        """Return the figure as the cells of a table whose columns are ``HEADER``."""
        source = ", ".join(filter(None, (self.source, self.generator, self.length)))
        return (
            source,
            self.measure,
            _three_decimals(self.value),
            "-"
            if self.low is None
            else f"{_three_decimals(self.low)} to {_three_decimals(self.high)}",
            str(self.n),
            "-" if self.positives is None else str(self.positives),
            str(self.groups),
            str(self.failed),
            self.note or "",
        )


def to_json(figures: Iterable[Figure], **about: Any) -> str:
    """Return figures as JSON text, one object with ``about`` beside the list ``figures``.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    record = {**about, "figures": [figure.to_dict() for figure in figures]}
    return json.dumps(record, ensure_ascii=False, allow_nan=False, indent=2)


def to_markdown(figures: Iterable[Figure]) -> str:
    """Return figures as a Markdown table; columns that are empty for all of them are left out."""
    rows = [figure.to_cells() for figure in figures]
    kept = [i for i in range(len(HEADER)) if i < len(HEADER) - 1 or any(row[i] for row in rows)]
    lines = [
        [HEADER[i] for i in kept],
        ["---" if i < 2 or HEADER[i] == "note" else "---:" for i in kept],
        # A bar in a name would open a new column.
        *([row[i].replace("|", r"\|") for i in kept] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _three_decimals(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
