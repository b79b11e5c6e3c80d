"""``trivet train``, ``adapt`` and ``ablate``."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.options import LabelledArgument, LabelOption, options
from trivet.commands.shared import (
    NO_SEPARATION,
    SOME_FAILED,
    end,
    needs_extra,
    quiet_lightning,
    what_was_typed,
)
from trivet.settings import Setting


def _print_keys(asked: bool) -> None:
    if asked:
        with needs_extra("train"):
            from trivet.configs.loading import described_keys
        print(described_keys())
        raise typer.Exit


@options
def train(
    configs_and_overrides: Annotated[
        list[str],
        Setting("Configuration files and values; later ones win.", "CONFIG.yaml... [KEY=VALUE]..."),
    ],
    *,
    resume: Annotated[bool, Setting("Continue from the last checkpoint.")] = False,
    dry_run: Annotated[bool, Setting("Print parameters, rows and steps; train nothing.")] = False,
    finish: Annotated[
        Path | None,
        Setting("Only write the bundle of a run from its weights.", metavar="WEIGHTS.safetensors"),
    ] = None,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            callback=_print_keys,
            is_eager=True,
            help="Print all keys, their defaults and meaning as YAML.",
        ),
    ] = False,
) -> None:
    """Train a model, write its bundle and print the bundle's folder."""
    configs = [Path(word) for word in configs_and_overrides if "=" not in word]
    overrides = [word for word in configs_and_overrides if "=" in word]
    with needs_extra("train"):
        from trivet.configs.loading import load_config
        from trivet.train import finish as finish_run
        from trivet.train import plan
        from trivet.train import train as run_training
    quiet_lightning()
    config = load_config(configs, overrides)
    if dry_run:
        print(plan(config))
        return
    if not sys.stderr.isatty():  # log lines instead of a progress bar
        logging.getLogger("trivet").setLevel(logging.INFO)
    if finish is not None:
        print(finish_run(config, finish, what_was_typed()))
        return
    bundle = run_training(config, resume=resume, command=what_was_typed())
    if os.environ.get("LOCAL_RANK", "0") == "0":  # only one of several processes prints
        print(bundle)


_PROGRESS = ("trivet.adapt", "trivet.training.run_progress")  # loggers whose lines are progress


@options
def adapt(
    labelled: LabelledArgument,
    overrides: Annotated[
        list[str] | None, Setting("Settings of the recipe adapt.yaml.", "[KEY=VALUE]...")
    ] = None,
    *,
    label: LabelOption = None,
    out: Annotated[Path, Setting("Folder for the adapted model and its figures.")],
) -> None:
    """Train the embedded model on rows of your own.

    The rows are split by source document: a part trains, a part chooses epoch, thresholds and
    calibration, and a part is held out for the test before and after. If the test does not show
    that the model got better, the exit code is 4: keep the embedded model.
    """
    with needs_extra("export"):
        import onnxscript  # noqa: F401 (before an hour of training, not after it)

        from trivet.adapt import adapt as run_adaptation
        from trivet.adaptation import describe, render_changes
        from trivet.report import terminal
    quiet_lightning()
    for name in _PROGRESS:
        logging.getLogger(name).setLevel(logging.INFO)
    adapted = run_adaptation(labelled, out, overrides or (), what_was_typed(), label)
    terminal.show(render_changes(adapted))
    print(describe(adapted))
    if not adapted.better:
        raise end(
            f"not shown to be better: keep {adapted.start} ({adapted.bundle} is kept as well)",
            NO_SEPARATION,
        )
    print(f"better: trivet evaluate LOG --bundle {adapted.bundle}")


@options
def ablate(
    grid_and_overrides: Annotated[
        list[str], Setting("Grid file and changed values.", "GRID.yaml [KEY=VALUE]...")
    ],
    *,
    out: Annotated[
        Path | None, Setting("Folder of the runs; default: runs/ablations/GRID.")
    ] = None,
    table_only: Annotated[bool, Setting("Only compare finished runs.")] = False,
) -> None:
    """Train every cell of a grid and compare them in one table.

    Each cell is trained with every seed. Finished runs are skipped, interrupted ones continue. The
    table is written to the folder of the runs as Markdown and JSON.
    """
    grids = [Path(word) for word in grid_and_overrides if "=" not in word]
    overrides = [word for word in grid_and_overrides if "=" in word]
    if len(grids) != 1:
        raise typer.BadParameter("give one grid file, and KEY=VALUE for changed values")
    with needs_extra("train"):
        from trivet.ablate import ablate as run_grid
        from trivet.ablation.grid import read_grid
        from trivet.ablation.markdown import write_table
        from trivet.ablation.table import tabulate
    grid = read_grid(grids[0], out, overrides)
    logging.getLogger("trivet").setLevel(logging.INFO)
    failures = [] if table_only else run_grid(grid, what_was_typed())
    table = tabulate(grid, what_was_typed())
    print(write_table(table, grid.folder))
    for failure in failures:
        print(f"{failure.run.name} failed: {failure.reason}", file=sys.stderr)
    if failures:
        raise typer.Exit(SOME_FAILED)
