"""Grid files: cells, seeds, order, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trivet.ablation.grid import Grid, read_grid
from trivet.configs import schema

SHIPPED = sorted((Path(schema.__file__).parent / "ablations").glob("*.yaml"))
TEST = {"spec": "jsonl:rows.jsonl"}


def read(folder: Path, *overrides: str, **changes: Any) -> Grid:
    record = {"base": ["tiny.yaml"], "overrides": ["encoder.name=x"], "test": [TEST], **changes}
    path = folder / "mine.yaml"
    path.write_text(json.dumps(record), encoding="utf-8")
    return read_grid(path, folder / "out", overrides)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: str(file.stem))
def test_a_grid_that_ships_is_found_by_name_and_its_cells_differ(file: Path) -> None:
    grid = read_grid(Path(file.stem), None, ["encoder.name=x"])
    assert grid.folder == Path("runs/ablations") / file.stem
    assert len(grid.runs) == len(grid.cells) * 3 >= 6
    first_seed = [str(run.config).replace(run.cell, "") for run in grid.runs if run.seed == 0]
    assert len(set(first_seed)) == len(grid.cells)
    assert f"trivet ablate {file.name}" in file.read_text(encoding="utf-8")


def test_axes_are_combined_and_a_seed_is_finished_before_the_next(tmp_path: Path) -> None:
    axes = {"granularity": ["token", "example"], "data.use_evidence": [True, False]}
    grid = read(tmp_path, "optim.epochs=7", axes=axes, seeds=[3, 5])
    assert list(grid.cells) == [
        f"granularity={unit},use_evidence={other}"
        for unit in ("token", "example")
        for other in ("true", "false")
    ]
    assert [run.seed for run in grid.runs] == [3] * 4 + [5] * 4
    run = grid.runs[-1]
    assert run.folder == tmp_path / "out" / run.cell / "seed5"
    assert run.config.run.folder == str(run.folder)
    assert (run.config.run.seed, run.config.optim.epochs) == (5, 7)
    assert run.config.granularity == "example"
    assert run.config.data.use_evidence is False


def test_keys_of_the_grid_itself_can_be_given_when_called(tmp_path: Path) -> None:
    cells = {"a": [], "b": ["optim.epochs=1"]}
    grid = read(tmp_path, "seeds=[4]", "test=[{spec: 'jsonl:other', split: all}]", cells=cells)
    assert [run.name for run in grid.runs] == ["a/seed4", "b/seed4"]
    (test,) = grid.test
    assert (test.spec, test.split, test.label) == ("jsonl:other", "all", "jsonl:other all")
