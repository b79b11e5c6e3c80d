"""The options of ``trivet calibrate``, with their help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer


class Head(StrEnum):
    """A head that can be asked for."""

    support = "support"
    relevance = "relevance"
    utilization = "utilization"


Method = Annotated[
    Literal["platt", "temperature", "isotonic"],
    typer.Option(help="Scale and shift, scale alone, or a rising line of up to 16 knots."),
]
Heads = Annotated[
    list[Head] | None,
    typer.Option("--head", help="Fit this head; repeat it. All that have labels if not given."),
]
SupportLevel = Annotated[
    Literal["sentence", "response", "both"],
    typer.Option(help="What support's probability is fitted to be true of."),
]
Weigh = Annotated[Literal["example", "sentence"], typer.Option(help="What counts once in a fit.")]
Only = Annotated[
    list[str] | None, typer.Option(help="Use sources with this prefix; repeat it. All by default.")
]
PrecisionAtLeast = Annotated[
    float | None,
    typer.Option(min=0.01, max=1, help="Flag most with this precision; else the best F1."),
]
ThresholdsFrom = Annotated[
    list[str] | None,
    typer.Option(help="Sources (prefixes) that choose the thresholds; all if not given."),
]
Overlap = Annotated[
    bool,
    typer.Option(
        help="Also weigh how many words a sentence shares with the contexts (support), with the "
        "question (relevance) and with the response (utilization)."
    ),
]
Report = Annotated[
    Path | None, typer.Option(help="FILE.html or a folder: errors and reliability curves.")
]
