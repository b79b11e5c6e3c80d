"""Account of one data source: rows read, kept and dropped, and the reasons.

Every reader of a source fills one, so that no row is dropped silently.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trivet.records import LabelledExample

T = TypeVar("T")

_log = logging.getLogger(__name__)

EXAMPLES_KEPT = 5
"""Places remembered for each reason; the counts themselves are complete."""


class RowError(ValueError):
    """One row cannot be used, for a reason that is equal for all rows with the same fault.

    The details are values of this row, shown with its place in the report.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.detail = detail


@dataclass
class SourceReport:
    """Counts of one source; ``rows == kept + outside_split + sum(dropped.values())``."""

    source: str  # specification that was read, such as ``ragtruth:DIR``
    rows: int = 0  # rows found
    kept: int = 0  # rows returned as labelled examples
    outside_split: int = 0  # valid rows of other splits than the requested one
    dropped: dict[str, int] = field(default_factory=dict)  # rows left out, by reason
    # oddities inside rows that were kept, by kind
    noted: dict[str, int] = field(default_factory=dict)
    # first few ids or line numbers for each reason of ``dropped`` and ``noted``
    places: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def total(cls, reports: Iterable[SourceReport]) -> SourceReport:
        """Return the counts of several sources together."""
        whole = cls("")
        for report in reports:
            whole.source = f"{whole.source}, {report.source}" if whole.source else report.source
            whole.rows += report.rows
            whole.kept += report.kept
            whole.outside_split += report.outside_split
            for counts, more in ((whole.dropped, report.dropped), (whole.noted, report.noted)):
                for reason, count in more.items():
                    counts[reason] = counts.get(reason, 0) + count
            for reason, places in report.places.items():
                for location in places:
                    whole._remember(reason, location)
        return whole

    def collect(
        self, rows: Iterable[tuple[str, T | RowError]], read: Callable[[T, str], LabelledExample]
    ) -> list[LabelledExample]:
        """Read rows, given with their places; count those kept and those dropped."""
        examples = []
        for location, row in rows:
            self.rows += 1
            try:
                if isinstance(row, RowError):
                    raise row
                examples.append(read(row, location))
            except RowError as error:
                self.drop(error, location)
        self.kept += len(examples)
        return examples

    def drop(self, error: RowError, location: str) -> None:
        """Count one row that is left out, and remember its place."""
        reason = str(error)
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        self._remember(reason, f"{location}: {error.detail}" if error.detail else location)

    def note(self, kind: str, location: str, count: int = 1) -> None:
        """Count ``count`` oddities inside a row that is kept."""
        if count:
            self.noted[kind] = self.noted.get(kind, 0) + count
            self._remember(kind, location)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dictionaries, lists, numbers and strings."""
        return dataclasses.asdict(self)

    def log(self) -> None:
        """Log the report: as a warning if rows were dropped, else as information."""
        level = logging.WARNING if self.dropped else logging.INFO
        _log.log(
            level,
            "%s: %d rows, %d kept, %d outside the split, dropped %s, noted %s",
            *(self.source, self.rows, self.kept, self.outside_split),
            *(self.describe(self.dropped), self.describe(self.noted)),
        )

    def _remember(self, reason: str, location: str) -> None:
        places = self.places.setdefault(reason, [])
        if len(places) < EXAMPLES_KEPT:
            places.append(location)

    def describe(self, counts: dict[str, int]) -> str:
        """Describe ``dropped`` or ``noted``, with the first places of each reason."""
        phrases = [
            f"{n} x {why} (first at {', '.join(self.places[why])})" for why, n in counts.items()
        ]
        return "; ".join(phrases) or "nothing"
