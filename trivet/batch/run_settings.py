"""Settings that determine the content of a verdict file, besides log and bundle."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Any

from trivet.batch.out_formats import check_fields
from trivet.errors import DataError
from trivet.logs.column_mapping import Columns
from trivet.logs.conversation import Turns
from trivet.settings import RARE, Setting, SettingError, ThresholdOption


@dataclass(frozen=True)
class Shard:
    """One part of a log: the ``number``-th of every ``count`` blocks of rows, counted from 1."""

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise DataError(f"shard {self}: the first must be from 1 to the second")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, block: int) -> bool:
        """Tell whether a block, counted from 0, belongs to this part."""
        return block % self.count == self.number - 1


def parse_shard(text: str) -> Shard:
    """Parse a shard such as ``2/8``; raises ``DataError`` for any other form."""
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if match is None:
        raise DataError(f"shard {text!r} must be NUMBER/COUNT, such as 2/8")
    return Shard(int(match[1]), int(match[2]))


def parse_mapping(pairs: Sequence[str]) -> dict[str, str | list[str]]:
    """Parse pairs ``OURS=THEIRS``, of which one of ours may have several."""
    mapping: dict[str, str | list[str]] = {}
    for pair in pairs:
        ours, separator, theirs = pair.partition("=")
        if not separator or not ours or not theirs:
            raise SettingError(f"--map {pair} must be OURS=THEIRS, such as question=prompt")
        before = mapping.get(ours)
        if before is None:
            mapping[ours] = theirs
        else:
            mapping[ours] = [*([before] if isinstance(before, str) else before), theirs]
    return mapping


_input, _output = partial(Setting, panel="Input"), partial(Setting, panel="Output")
_rare = partial(Setting, panel=RARE)
ShardOption = Annotated[
    Shard,
    _rare(
        "Evaluate only this shard of the rows.", metavar="NUMBER/COUNT", typed=str, read=parse_shard
    ),
]


@dataclass(frozen=True)
class LogReading:
    """Reading of a log: names of its fields by ours, format and encoding."""

    mapping: Annotated[
        Mapping[str, str | Sequence[str]],
        _input(
            "Name of a field in the file, or its path: contexts=docs[].text, rows=samples[]. "
            "Repeatable.",
            "--map",
            metavar="OURS=THEIRS",
            typed=list[str],
            read=parse_mapping,
        ),
    ] = field(default_factory=dict)
    format: Annotated[
        str | None,
        _input(
            "jsonl, json, csv, tsv, parquet, xlsx, or a name that --formats lists; default: "
            "detected.",
            metavar="FORMAT",
        ),
    ] = None
    encoding: Annotated[
        str | None, _rare("Encoding; default: detected from the file.", metavar="NAME")
    ] = None


@dataclass(frozen=True)
class RunSettings(LogReading):
    """Settings for reading a log and for writing its verdicts."""

    allow_empty_contexts: Annotated[bool, _input("Evaluate answers without contexts.")] = False
    threshold: ThresholdOption = None
    strict: Annotated[bool, _rare("Count answers with spans to check as unsupported.")] = False
    fields: Annotated[
        tuple[str, ...] | None,
        _output(
            "Fields to write, such as id,faithfulness.",
            metavar="NAMES",
            typed=str,
            read=lambda text: tuple(name.strip() for name in text.split(",")),
        ),
    ] = None
    metadata: Annotated[
        tuple[str, ...] | None,
        _output(
            "Column of FILE to write; default: those with short values. Repeatable.",
            metavar="COLUMN",
            typed=list[str],
            read=tuple,
        ),
    ] = None
    max_characters: Annotated[
        int | None, _rare("Longest text; default: 2,000,000.", metavar="N", least=1)
    ] = None
    turns: Annotated[
        Turns, _rare("Answers of chat messages that are judged, one verdict for each.")
    ] = "last"
    texts: Annotated[bool, _output("Write the texts too.")] = False
    shard: ShardOption = field(default_factory=Shard)

    def __post_init__(self) -> None:
        check_fields(self.fields or ())
        self.columns()

    def columns(self) -> Columns:
        """Return the mapping of the log's columns."""
        return Columns(self.mapping, self.metadata, format=self.format, turns=self.turns)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as written in a run's record, with the shard as ``2/8``."""
        record = asdict(self)
        for name in ("fields", "metadata"):
            record[name] = None if record[name] is None else list(record[name])
        return record | {"shard": str(self.shard)}
