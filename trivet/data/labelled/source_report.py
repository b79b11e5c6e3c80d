"""What became of the rows of one data source: how many, how many kept, what was lost and why.

Every reader of a source fills one of these, so that nothing is left out in silence.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass, field
from typing import Any

_log = logging.getLogger(__name__)

EXAMPLES_KEPT = 5
"""How many places are remembered for each reason; the counts themselves are complete."""


@dataclass
class SourceReport:
    """The account of one source; ``rows == kept + outside_split + sum(dropped.values())``.

    Attributes:
        source: The specification that was read, such as ``ragtruth:DIR``.
        rows: Rows found.
        kept: Rows handed over as labelled examples.
        outside_split: Rows that are fine but belong to another split than the one asked for.
        dropped: Rows left out, by reason.
        noted: Things worth knowing inside rows that were kept (a key that names no sentence, a
            score that does not follow from its labels), by kind.
        places: For each reason of ``dropped`` and ``noted``, the first few ids or line numbers.
    """

    source: str
    rows: int = 0
    kept: int = 0
    outside_split: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)

    def drop(self, reason: str, place: str) -> None:
        """Count one row that is left out, and remember where it stands."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        self._remember(reason, place)

    def note(self, kind: str, place: str, count: int = 1) -> None:
        """Count ``count`` oddities inside a row that is kept; ``count`` of 0 is no oddity."""
        if count:
            self.noted[kind] = self.noted.get(kind, 0) + count
            self._remember(kind, place)

    def to_dict(self) -> dict[str, Any]:
        """Return the account as plain dictionaries, lists, numbers and strings."""
        return dataclasses.asdict(self)

    def losses(self) -> str:
        """Return in words why rows were dropped, and where the first of each kind stand."""
        return self._counted(self.dropped)

    def log(self) -> None:
        """Write the account to the log: a warning where rows were dropped, else information."""
        level = logging.WARNING if self.dropped else logging.INFO
        _log.log(
            level,
            "%s: %d rows, %d kept, %d outside the split, dropped %s, noted %s",
            self.source,
            self.rows,
            self.kept,
            self.outside_split,
            self._counted(self.dropped),
            self._counted(self.noted),
        )

    def _remember(self, reason: str, place: str) -> None:
        places = self.places.setdefault(reason, [])
        if len(places) < EXAMPLES_KEPT:
            places.append(place)

    def _counted(self, counts: dict[str, int]) -> str:
        if not counts:
            return "nothing"
        return "; ".join(
            f"{count} x {reason} (first at {', '.join(self.places[reason])})"
            for reason, count in counts.items()
        )
