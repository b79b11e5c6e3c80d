"""Rows of labelled sources: JSON lines, folders of Parquet files, and data sets of the hub."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trivet.errors import DataError, ExampleError, install_line
from trivet.labelled.source_report import RowError
from trivet.logs.decoding import DAMAGE, decompress
from trivet.logs.json_rows import parse_plain_line, read_lines
from trivet.logs.table_rows import read_parquet


def read_json_lines(path: Path) -> Iterator[tuple[int | None, dict[str, Any] | RowError]]:
    """Yield the line number of each row, and the object or the error in it.

    Raises:
        DataError: The file does not exist, or its compression (by its suffix) is damaged.
    """
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    number: int | None = 0
    try:
        with path.open("rb") as raw, decompress(raw, str(path)) as file:
            for number, row in read_lines(file, parse_plain_line):
                if isinstance(row, ExampleError):  # only the reason, so that equal ones are counted
                    yield number, RowError(f"line {str(row).split(' (')[0]}")
                else:
                    yield number, dict(row)
    except DAMAGE as error:
        raise DataError(f"{path} cannot be read past line {number}: {error}") from error


@dataclass(frozen=True)
class PublishedRow:
    """One row of a published data set, and its place."""

    part: str  # folder of its file, or the hub's name of the configuration
    split: str  # the publisher's split: the file's name up to the first hyphen, or the hub's
    values: Mapping[str, Any]  # columns by name


def read_published(
    name: str, columns: Sequence[str], hub_names: Mapping[str, str]
) -> Iterator[PublishedRow]:
    """Yield the rows of a folder of Parquet files (or of such folders), or else of a hub data set.

    Columns that a file lacks are not in ``values``; ``hub_names`` has full names by short names.

    Raises:
        DataError: There is neither such a folder nor such a data set, or a file cannot be read.
    """
    folder = Path(name)
    if not folder.is_dir():
        yield from _read_hub(name, hub_names)
        return
    files = sorted(folder.glob("*.parquet")) or sorted(folder.glob("*/*.parquet"))
    if not files:
        raise DataError(f"{folder} holds no *.parquet, nor does any folder in it")
    for path in files:
        part, split = path.absolute().parent.name, path.stem.split("-", 1)[0]
        try:
            with path.open("rb") as file:
                for _, row in read_parquet(file, columns=columns):
                    if isinstance(row, ExampleError):
                        raise row
                    yield PublishedRow(part, split, dict(row))
        except DataError:
            raise
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read as parquet: {error}") from error


def check_published(name: str, short_names: Collection[str]) -> None:
    """Refuse a name of neither a folder nor, by its form, a data set of the hub."""
    named = name in short_names or re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name)
    if not named and not Path(name).is_dir():
        raise DataError(f"no folder {name!r}, and a hub data set is named owner/name")


def _read_hub(name: str, hub_names: Mapping[str, str]) -> Iterator[PublishedRow]:
    check_published(name, hub_names)
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f"no folder {name!r}; reading from the hub needs datasets; {install_line('train')}"
        ) from error
    hub_name = hub_names.get(name, name)
    try:
        for part in datasets.get_dataset_config_names(hub_name):
            for split, rows in datasets.load_dataset(hub_name, part).items():
                for values in rows:
                    yield PublishedRow(part, str(split), values)
    except (OSError, ValueError) as error:
        raise DataError(f"no folder {name!r}, and no data set {hub_name!r}: {error}") from error
