"""A bundle's facts and scores as rich renderables, for ``trivet info``."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trivet.bundle.schema import BundleInfo
from trivet.report.terminal import number, visible


def render_info(info: BundleInfo, folder: str) -> RenderableType:
    """Return what a bundle is and how it scored."""
    about = Table.grid(padding=(0, 2))
    graphs = ", ".join(f"{graph.file} ({graph.precision})" for graph in info.graphs) or "none"
    data = ", ".join(f"{data.name} ({data.licence})" for data in info.training.data) or "none"
    rows = {
        "bundle": info.name,
        "folder": folder,
        "encoder": f"{info.encoder.source} ({info.encoder.licence}), {info.encoder.layers} layers",
        "windows": f"{' or '.join(map(str, info.window.sizes or (info.window.size,)))} tokens, "
        f"overlap {info.window.overlap}",
        "heads": ", ".join(info.heads),
        "faithfulness": info.faithfulness,
        "thresholds": f"adherence {info.thresholds.adherence:.3f}, "
        f"sentence {info.thresholds.sentence:.3f}, span {info.thresholds.span:.3f}",
        "graphs": graphs,
        "trained on": data,
        "written by": f"trivet {info.package_version}, {info.training.date}",
    }
    for name, value in rows.items():
        about.add_row(Text(name, style="bold"), Text(visible(value)))
    if not info.scores:
        return about
    scores = Table(*("data", "split", "measure", "value", "95 % interval", "n", "precision"))
    for score in info.scores:
        cells = (
            score.data,
            score.split,
            score.measure,
            number(score.value),
            "-" if score.low is None else f"{number(score.low)} to {number(score.high)}",
            str(score.n),
            score.precision,
        )
        # As text: a plain string would be read as markup.
        scores.add_row(*(Text(visible(cell)) for cell in cells))
    return Group(about, Text(), scores)
