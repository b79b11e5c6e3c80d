"""``trivet adapt``: train on labelled rows of one's own, and test whether that helped."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

from trivet.commands.options import options
from trivet.commands.shared import NO_SEPARATION, end, needs_extra, quiet_lightning, what_was_typed
from trivet.settings import Setting

_PROGRESS = ("trivet.adapt", "trivet.training.progress")  # loggers whose lines are progress


@options
def adapt(
    labelled: Annotated[Path, Setting("Labelled JSONL.", "LABELLED")],
    overrides: Annotated[
        list[str] | None, Setting("Settings of the recipe adapt.yaml.", "[KEY=VALUE]...")
    ] = None,
    *,
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
    found = run_adaptation(labelled, out, overrides or (), what_was_typed())
    terminal.show(render_changes(found))
    print(describe(found))
    if not found.better:
        raise end(
            f"not shown to be better: keep {found.start} ({found.bundle} is kept as well)",
            NO_SEPARATION,
        )
    print(f"better: trivet evaluate LOG --bundle {found.bundle}")
