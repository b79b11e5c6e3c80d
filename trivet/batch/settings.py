"""What decides the bytes of a verdict file, beside the log and the bundle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trivet.batch.verdict_lines import check_fields
from trivet.data.logs.column_mapping import Columns, Unicode
from trivet.data.logs.log import Format
from trivet.records import DataError


@dataclass(frozen=True)
class Shard:
    """One part of a log: of every ``count`` blocks of rows the one numbered ``number``, from 1."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise DataError(
                f"shard {self.number}/{self.count}: the first must be from 1 to the second"
            )

    def has(self, block: int) -> bool:
        """Say whether a block, counted from 0, belongs to this part."""
        return block % self.count == self.number - 1


def parse_shard(text: str) -> Shard:
    """Read ``2/8``.

    Raises:
        DataError: It is not of that form, or there is no such part.
    """
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if found is None:
        raise DataError(f"shard {text!r} must be NUMBER/COUNT, such as 2/8")
    return Shard(int(found[1]), int(found[2]))


@dataclass(frozen=True)
class RunSettings:
    """How a log is read and what is written of each row.

    Attributes:
        mapping: Our field names to the log's.
        format: Of the log; ``None`` asks its suffix.
        allow_empty_contexts: As in ``Evaluator.evaluate``.
        bad_unicode: Whether a lone surrogate is an error, or read as U+FFFD.
        fields: The fields that are kept of a verdict; ``None`` keeps all.
        metadata: Columns that come back with the verdicts; ``None`` takes what looks like one.
        texts: Whether question, contexts and response come back too.
        shard: The part of the log that is judged.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    format: Format | None = None
    allow_empty_contexts: bool = False
    bad_unicode: Unicode = "error"
    fields: tuple[str, ...] | None = None
    metadata: tuple[str, ...] | None = None
    texts: bool = False
    shard: Shard = field(default_factory=Shard)

    def __post_init__(self) -> None:
        check_fields(self.fields or ())
        self.columns()

    def columns(self) -> Columns:
        """Return which columns of the log stand for what."""
        return Columns(self.mapping, self.metadata, self.bad_unicode)

    def to_dict(self) -> dict[str, Any]:
        """Return them as they stand in a run's record: lists for tuples, ``2/8`` for the shard."""
        record = asdict(self)
        for name in ("fields", "metadata"):
            record[name] = None if record[name] is None else list(record[name])
        return record | {"shard": f"{self.shard.number}/{self.shard.count}"}
