"""Grids of training runs: cells over any configuration key, each trained with each seed.

A grid file::

    base: [embedded.yaml]                   # shipped, next to the grid file, or a path
    overrides: [optim.epochs=1]             # for every cell
    axes: {encoder.trunk: [shared, separate]}
    seeds: [0, 1, 2]
    test: [{spec: "ragbench:data/ragbench", split: test}]

Instead of ``axes``, whose values are combined, ``cells`` may name each cell with a list of
``key=value``. The other cells are compared with the first.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from trivet.configs.loading import find, load_config, merge
from trivet.configs.schema import TrainConfig
from trivet.errors import ConfigError

_NAME = re.compile(r"\w[\w.=,+-]*")


@dataclass
class MeasuredRows:
    """Labelled rows that the runs are measured on."""

    spec: str = MISSING
    split: str = "dev"
    only: list[str] = field(default_factory=list)  # prefixes of sources; empty: all
    limit: int | None = None  # largest number of rows, the same for every run
    foreign: int = 0  # passages of other rows added to each row
    name: str | None = None  # label in tables; null: spec and split

    @property
    def label(self) -> str:
        """Label in tables."""
        return self.name or f"{self.spec} {self.split}"


@dataclass
class GridConfig:
    """The contents of a grid file."""

    base: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    axes: dict[str, list[Any]] = field(default_factory=dict)
    cells: dict[str, list[str]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2])
    test: list[MeasuredRows] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """One training run of a grid: a cell and a seed."""

    cell: str
    seed: int
    folder: Path
    config: TrainConfig

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"{self.cell}/seed{self.seed}"


@dataclass(frozen=True)
class Grid:
    """A grid with checked configurations."""

    name: str  # stem of the grid file's name
    folder: Path  # of the runs and the table
    cells: Mapping[str, tuple[str, ...]]  # names and ``key=value``
    seeds: tuple[int, ...]
    test: tuple[MeasuredRows, ...]
    runs: tuple[Run, ...]  # all cells of the first seed, then of the next


def read_grid(path: Path, out: Path | None = None, overrides: Sequence[str] = ()) -> Grid:
    """Read a grid file and the configuration of every run.

    Args:
        path: Grid file, or the name of one in ``configs/ablations``.
        out: Folder of the runs; ``runs/ablations/NAME`` by default.
        overrides: ``key=value`` for every cell, or for a key of the grid file, such as
            ``seeds=[0]``.

    Raises:
        ConfigError: The file cannot be read, is incomplete or contradicts itself, or a cell's
            configuration is refused; the message names the cell and the key.
    """
    path = find(path, "ablations")
    keys = {key.name for key in fields(GridConfig)}
    of_grid = [
        override
        for override in overrides
        if _key(override).partition(".")[0].partition("[")[0] in keys
    ]
    of_cells = [override for override in overrides if override not in of_grid]
    try:
        described = merge(GridConfig, [path], of_grid)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    cells = _named_cells(path, described)
    _check(path, described, cells)
    differing = {_key(value) for values in cells.values() for value in values}
    for override in of_cells:
        if _key(override) in differing:
            raise ConfigError(f"{override}: the cells of {path} set {_key(override)}")
    for key in ("run.seed", "run.folder"):
        if key in differing.union(map(_key, [*described.overrides, *of_cells])):
            raise ConfigError(f"{path}: {key} cannot be set; seeds and --out determine it")
    base = [
        near if (near := path.parent / name).exists() else Path(name) for name in described.base
    ]
    out = Path("runs") / "ablations" / path.stem if out is None else out
    runs = []
    for seed, (cell, own_values) in itertools.product(described.seeds, cells.items()):
        folder = out / cell / f"seed{seed}"
        fixed = [f"run.seed={seed}", "run.folder=to-be-set"]
        try:
            config = load_config(base, [*described.overrides, *of_cells, *own_values, *fixed])
        except ConfigError as error:
            raise ConfigError(f"{path}, cell {cell}: {error}") from error
        config.run.folder = str(folder)  # not parsed: a path may hold any character
        runs.append(Run(cell, seed, folder, config))
    return Grid(
        name=path.stem,
        folder=out,
        cells=cells,
        seeds=tuple(described.seeds),
        test=tuple(described.test),
        runs=tuple(runs),
    )


def _named_cells(path: Path, config: GridConfig) -> dict[str, tuple[str, ...]]:
    """Return the cells by name; a cell of axes is named by its values: ``trunk=shared``."""
    if bool(config.axes) == bool(config.cells):
        raise ConfigError(f"{path}: give axes (combined) or cells (named), one of the two")
    if config.cells:
        return {name: tuple(values) for name, values in config.cells.items()}
    last = {key: key.rpartition(".")[2] for key in config.axes}
    twice = Counter(last.values())
    shown = {key: short if twice[short] == 1 else key for key, short in last.items()}
    empty = [key for key, values in config.axes.items() if not values]
    if empty:
        raise ConfigError(f"{path}: axes.{empty[0]} must hold at least one value")
    cells = {}
    for values in itertools.product(*config.axes.values()):
        pairs = [(key, _plain(path, key, value)) for key, value in zip(shown, values, strict=True)]
        name = ",".join(f"{shown[key]}={value}" for key, value in pairs)
        cells[name] = tuple(f"{key}={value}" for key, value in pairs)
    return cells


def _plain(path: Path, key: str, value: object) -> str:
    if isinstance(value, dict | list):
        raise ConfigError(f"{path}: axes.{key}: {value} is a list or an object; use named cells")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _check(path: Path, config: GridConfig, cells: Iterable[str]) -> None:
    for name in cells:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{path}: cell {name!r} cannot be the name of a folder")
    for key, values in (("base", config.base), ("seeds", config.seeds), ("test", config.test)):
        if not values:
            raise ConfigError(f"{path}: {key} must hold at least one entry")
    if len(set(config.seeds)) < len(config.seeds):
        raise ConfigError(f"{path}: seeds {config.seeds}: a seed occurs twice")
    labels = [rows.label for rows in config.test]
    if len(set(labels)) < len(labels):
        raise ConfigError(f"{path}: test: a name occurs twice in {labels}; give each entry a name")


def _key(override: str) -> str:
    return override.partition("=")[0].strip()
