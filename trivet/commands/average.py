"""``trivet average``: one bundle of the mean weights of several."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.shared import needs_extra


def average(
    bundles: Annotated[
        list[str],
        typer.Argument(
            metavar="BUNDLE[=SHARE]...",
            help="Bundles of one architecture, by folder or name; their shares are 1 by default.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the new bundle.")],
) -> None:
    """Average the weights of bundles: of a model and the same trained further, or of several runs.

    Windows, reduction, thresholds and the map of sources are those of the first bundle. Run
    `trivet calibrate` and `trivet export onnx` on the result.
    """
    shares: list[tuple[str | PathLike[str], float]] = []
    for given in bundles:
        name, _, share = given.rpartition("=") if "=" in given else (given, "", "1")
        try:
            shares.append((name, float(share)))
        except ValueError:
            raise typer.BadParameter(f"{given}: the share {share!r} is not a number") from None
    if out.exists():
        raise typer.BadParameter(f"--out {out} exists already; choose another folder")
    with needs_extra("train"):
        from trivet.average import average as average_weights
    average_weights(shares, out)
    print(out)
