"""``trivet adapt``: train on labelled rows of one's own, and test whether that helped."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trivet.commands.shared import NO_SEPARATION, end, needs_extra, quiet_lightning, what_was_typed

if TYPE_CHECKING:
    from rich.table import Table

    from trivet.adapt import Adapted

_PROGRESS = ("trivet.adapt", "trivet.training.progress")  # loggers whose lines are progress


def adapt(
    labelled: Annotated[Path, typer.Argument(metavar="LABELLED", help="Labelled JSONL.")],
    out: Annotated[Path, typer.Option(help="Folder for the adapted model and its figures.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings of the recipe adapt.yaml."),
    ] = None,
) -> None:
    """Train the embedded model on rows of your own.

    The rows are split by source document: a part trains, a part chooses epoch, thresholds and
    calibration, and a part is held out for the test before and after. If the test does not show
    that the model got better, the exit code is 4: keep the embedded model.
    """
    with needs_extra("export"):
        import onnxscript  # noqa: F401 (before an hour of training, not after it)

        from trivet.adapt import adapt as run_adaptation
        from trivet.report import terminal
    quiet_lightning()
    for name in _PROGRESS:
        logging.getLogger(name).setLevel(logging.INFO)
    found = run_adaptation(labelled, out, overrides or (), what_was_typed())
    terminal.show(render_changes(found))
    print(describe(found))
    if not found.better:
        raise end(
            f"not shown to be better: keep {found.start} ({found.bundle} is kept as well)",
            NO_SEPARATION,
        )
    print(f"better: trivet evaluate LOG --bundle {found.bundle}")


def render_changes(found: Adapted) -> Table:
    """Return a table of the measures before and after."""
    from rich.table import Table

    from trivet.report.terminal import number

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("measure", no_wrap=True)
    for name in ("before", "after", "95 % of the difference", "n", "positives", "documents"):
        table.add_column(name, justify="right")
    table.add_column("outcome")
    for one in found.changes:
        interval = "-" if one.low is None else f"{one.low:+.3f} to {one.high:+.3f}"
        counts = (one.n, "-" if one.positives is None else one.positives, one.documents)
        values = (one.measure, number(one.before), number(one.after), interval)
        table.add_row(*values, *map(str, counts), one.outcome)
    return table


def describe(found: Adapted) -> str:
    """Return the parts, the leaks, what was not measured, and the cost, one a line."""
    parts = "; ".join(
        f"{part}: {rows} rows of {documents} documents"
        for part, (rows, documents) in found.parts.items()
    )
    of = f"of {found.parts['test'][0]} test rows"
    lines = [parts, f"{found.shared} {of} share a passage or a question with other parts"]
    if found.unmeasured:
        lines.append(
            f"not measured, because no test row has a label: {', '.join(found.unmeasured)}; "
            "training may have changed it"
        )
    memory = "" if found.peak_bytes is None else f", peak memory {found.peak_bytes / 2**30:.1f} GiB"
    lines.append(f"took {found.minutes:.1f} minutes{memory}")
    return "\n".join(lines)
