"""Settings that determine the content of a verdict file, besides log and bundle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trivet.batch.verdict_lines import check_fields
from trivet.data.logs.column_mapping import Columns, Unicode
from trivet.data.logs.conversation import Turns
from trivet.errors import DataError


@dataclass(frozen=True)
class Shard:
    """One part of a log: the ``number``-th of every ``count`` blocks of rows, counted from 1."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise DataError(
                f"shard {self.number}/{self.count}: the first must be from 1 to the second"
            )

    def has(self, block: int) -> bool:
        """Tell whether a block, counted from 0, belongs to this part."""
        return block % self.count == self.number - 1


def parse_shard(text: str) -> Shard:
    """Parse a shard such as ``2/8``; raises ``DataError`` for any other form."""
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if found is None:
        raise DataError(f"shard {text!r} must be NUMBER/COUNT, such as 2/8")
    return Shard(int(found[1]), int(found[2]))


@dataclass(frozen=True)
class RunSettings:
    """Settings for reading a log and for writing its verdicts."""

    # the log's column names by our field names
    mapping: Mapping[str, str] = field(default_factory=dict)
    # file format, tool whose spans the log holds, or shape of its rows, as for `open_log`
    format: str | None = None
    encoding: str | None = None  # encoding of the log, as for `Log`
    allow_empty_contexts: bool = False  # as in ``Evaluator.evaluate``
    threshold: float | None = None  # as in ``Evaluator.evaluate``
    bad_unicode: Unicode = "error"  # whether a lone surrogate is an error, or read as U+FFFD
    fields: tuple[str, ...] | None = None  # fields of a verdict that are written; None means all
    # columns that are returned with the verdicts; None means by content
    metadata: tuple[str, ...] | None = None
    # maximum characters of a text; None means that of `Evaluator`
    max_characters: int | None = None
    turns: Turns = "last"  # answers of a conversation that are judged
    texts: bool = False  # whether question, contexts and response are written too
    shard: Shard = field(default_factory=Shard)  # part of the log that is evaluated

    def __post_init__(self) -> None:
        check_fields(self.fields or ())
        self.columns()

    def columns(self) -> Columns:
        """Return the mapping of the log's columns."""
        return Columns(
            self.mapping, self.metadata, self.bad_unicode, format=self.format, turns=self.turns
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as written in a run's record, with the shard as ``2/8``."""
        record = asdict(self)
        for name in ("fields", "metadata"):
            record[name] = None if record[name] is None else list(record[name])
        return record | {"shard": f"{self.shard.number}/{self.shard.count}"}
