"""Measured figures, as JSON and as tables."""

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
    """One measure of some rows with its interval; every number is finite or ``None``."""

    measure: str  # see `trivet.measures.metrics`
    source: str  # or FAMILY/mean, FAMILY/pooled
    value: float | None  # None where undefined, with the reason in ``note``
    low: float | None  # 2.5th percentile of the bootstrap; None without an interval
    high: float | None  # 97.5th percentile
    n: int  # rows measured
    positives: int | None  # rows of the positive class; None without classes
    groups: int  # source documents of these rows, the units of resampling
    failed: int  # further rows with a known truth and no verdict
    note: str | None = None  # reason for an undefined value, or a reading hint
    generator: str | None = None  # if only its rows were measured
    length: str | None = None  # length bucket, if only its rows were measured
    rows: str | None = None  # "leak-free", if only these rows were measured
    judge: str | None = None  # system whose scores were measured, if several are compared

    def to_cells(self) -> tuple[str, ...]:
        """Return the figure as the cells of a table whose columns are ``HEADER``."""
        source = ", ".join(
            filter(None, (self.source, self.generator, self.length, self.rows, self.judge))
        )
        return (
            source,
            self.measure,
            "-" if self.value is None else f"{self.value:.3f}",
            "-" if self.low is None else f"{self.low:.3f} to {self.high:.3f}",
            str(self.n),
            "-" if self.positives is None else str(self.positives),
            str(self.groups),
            str(self.failed),
            self.note or "",
        )


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Share of the verdicts on the labelled answers of one data set that were right."""

    data: str
    split: str
    supported: int  # answers labelled supported
    flagged: int  # those of them that were judged unsupported
    unsupported: int  # answers labelled unsupported
    finds: int  # those of them that were judged unsupported


def to_json(figures: Iterable[Figure], **about: Any) -> str:
    """Return JSON text: one object with the items of ``about`` and the list ``figures``.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    record = {**about, "figures": [dataclasses.asdict(figure) for figure in figures]}
    return json.dumps(record, ensure_ascii=False, allow_nan=False, indent=2)


def to_markdown(figures: Iterable[Figure]) -> str:
    """Return figures as a Markdown table; an empty note column is left out."""
    rows = [figure.to_cells() for figure in figures]
    kept = [i for i in range(len(HEADER)) if i < len(HEADER) - 1 or any(row[i] for row in rows)]
    lines = [
        [HEADER[i] for i in kept],
        ["---" if i < 2 or HEADER[i] == "note" else "---:" for i in kept],
        # An unescaped bar would open a new column.
        *([row[i].replace("|", r"\|") for i in kept] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
