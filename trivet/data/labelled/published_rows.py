"""Rows of a published data set: parquet files in a folder, or the hub where there is no folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trivet.records import DataError


@dataclass(frozen=True)
class PublishedRow:
    """One row and where it stands.

    Attributes:
        part: The folder of its file, or the hub's name for the configuration.
        split: The publisher's: the file's name up to the first hyphen, or the hub's.
        values: Its columns by name.
    """

    part: str
    split: str
    values: Mapping[str, Any]


def read_rows(
    name: str, columns: Sequence[str], hub_names: Mapping[str, str]
) -> Iterator[PublishedRow]:
    """Yield the rows of a folder of parquet files, or of a hub data set.

    Args:
        name: A folder that holds ``*.parquet``, or folders that do; or, where there is no such
            folder, a hub data set ``owner/name``.
        columns: What to read of a file; those that it lacks are not in ``values``.
        hub_names: Short names of hub data sets, and their full ones.

    Raises:
        DataError: There is neither such a folder nor such a data set, or a file cannot be read.
    """
    if Path(name).is_dir():
        return _read_folder(Path(name), columns)
    return _read_hub(name, hub_names)


def _read_folder(folder: Path, columns: Sequence[str]) -> Iterator[PublishedRow]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    files = sorted(folder.glob("*.parquet")) or sorted(folder.glob("*/*.parquet"))
    if not files:
        raise DataError(f"{folder} holds no *.parquet, nor does any folder in it")
    for path in files:
        try:
            file = ParquetFile(path)
            present = [column for column in columns if column in file.schema_arrow.names]
            for values in file.read(columns=present).to_pylist():
                yield PublishedRow(path.absolute().parent.name, path.stem.split("-", 1)[0], values)
        except (ArrowException, OSError) as error:
            raise DataError(f"{path} cannot be read as parquet: {error}") from error


def _read_hub(name: str, hub_names: Mapping[str, str]) -> Iterator[PublishedRow]:
    if name not in hub_names and not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name):
        raise DataError(f"no folder {name!r}, and a hub data set is named owner/name")
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f"no folder {name!r}; reading from the hub needs datasets: pip install 'trivet[train]'"
        ) from error
    hub_name = hub_names.get(name, name)
    try:
        for part in datasets.get_dataset_config_names(hub_name):
            for split, rows in datasets.load_dataset(hub_name, part).items():
                for values in rows:
                    yield PublishedRow(part, str(split), values)
    except (OSError, ValueError) as error:
        raise DataError(f"no folder {name!r}, and no data set {hub_name!r}: {error}") from error
