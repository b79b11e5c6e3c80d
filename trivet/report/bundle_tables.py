"""Facts, scores and figures of bundles, and the choice between two, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivet.measures.choosing import SetChange, is_kept
from trivet.report.terminal import number, visible

if TYPE_CHECKING:
    from trivet.bundle.info import BundleInfo, ScoreInfo
    from trivet.data.windows import WindowSettings
    from trivet.measures.figures import Figure
    from trivet.measures.intervals import Estimate
    from trivet.measures.rule_figures import RuleFigures


def render_info(
    info: BundleInfo,
    folder: str,
    devices: Sequence[tuple[str, str]] = (),
    revision: str | None = None,
) -> RenderableType:
    """Return facts and scores in sections, for a terminal of 80 columns."""
    encoder, window, thresholds = info.encoder, info.window, info.thresholds
    licences: dict[str, list[str]] = {}
    for data in info.training.data:
        licences.setdefault(data.licence, []).append(data.name)
    sections: dict[str, list[tuple[str, str]]] = {
        "Model": [
            ("name", info.name),
            ("folder", folder),
            *([("revision", revision)] if revision else []),
            ("encoder", f"{encoder.source} ({encoder.licence}), {encoder.layers} layers"),
            ("heads", ", ".join(info.heads)),
            ("faithfulness", info.faithfulness),
            ("written by", f"trivet {info.package_version}, {info.training.date}"),
        ],
        "Windows": [
            ("size", f"{window.size} tokens"),
            ("stride overlap", f"{window.stride_overlap} tokens"),
            ("evidence", _evidence(window)),
        ],
        "Thresholds": [
            (name, f"{value:.3f}")
            for name, value in (vars(thresholds) if thresholds else {}).items()
            if value is not None
        ],
        "Graphs": [(graph.file, graph.precision) for graph in info.graphs],
        "This machine": list(devices),
        "Training data": [(name, ", ".join(sets)) for name, sets in licences.items()],
    }
    parts: list[RenderableType] = []
    for title, rows in sections.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(max_width=28)
        for name, value in rows or [("none", "")]:
            # As Text: a string would be read as markup.
            table.add_row(Text(visible(name)), Text(visible(value)))
        parts += [Text(title, style="bold"), Padding(table, (0, 0, 1, 2))]
    return Group(*parts, *_scores(info.scores))


def _evidence(window: WindowSettings) -> str:
    """Return a description of the evidence windows."""
    order = "; contexts sorted by shared words" if window.sort_contexts else ""
    if not window.evidence_sentences:
        return f"no evidence windows{order}"
    plural = "s" if window.evidence_sentences > 1 else ""
    shown = f"{window.evidence_sentences} context sentence{plural} for each response sentence"
    return f"{shown}, in examples of several windows{order}"


def _scores(scores: Sequence[ScoreInfo]) -> list[RenderableType]:
    """Return a table with a block for each data set and split, and a column for each precision."""
    blocks: dict[tuple[str, str], dict[tuple[str, int], dict[str, str]]] = {}
    for score in scores:
        interval = "" if score.low is None else f" ({number(score.low)}-{number(score.high)})"
        block = blocks.setdefault((score.data, score.split), {})
        block.setdefault((score.measure, score.n), {})[score.precision] = (
            number(score.value) + interval
        )
    if not blocks:
        return []
    precisions = list(dict.fromkeys(score.precision for score in scores))
    table = Table("  measure", "rows", *precisions, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for (data, split), block in blocks.items():
        table.add_row(Text(visible(f"{data}, {split}"), style="bold"))
        for (measure, rows), cells in block.items():
            values = [Text(cells.get(name, "-"), no_wrap=True) for name in precisions]
            table.add_row(Text(visible(f"  {measure}")), str(rows), *values)
    return [Text("Scores, with 95 % intervals", style="bold"), table]


def render_figures(figures: Iterable[Figure]) -> RenderableType:
    """Return a table for each source, generator and length, with its notes below."""
    parts: list[RenderableType] = []
    for title, group in groupby(figures, key=lambda figure: figure.to_cells()[0]):
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("measure", overflow="fold")  # long names give way to the values
        for name in ("value", "95 % interval", "n", "positives", "groups", "fail"):
            table.add_column(name, justify="right", no_wrap=True)
        notes = []
        for figure in group:
            table.add_row(*figure.to_cells()[1:-1])  # without source and note
            if figure.note:
                notes.append(Text(visible(f"{figure.measure}: {figure.note}"), style="dim"))
        parts += [Text(visible(title), style="bold"), table]
        parts += [Padding(note, (0, 0, 0, 2)) for note in notes]
    return Group(*parts)


_RULE = "the mean must rise, and no set fall by more than .01"


def render_choice(changes: Sequence[SetChange]) -> RenderableType:
    """Return the table of two bundles on several sets, with the decision below it."""
    kept = "kept" if is_kept(changes) else "not kept"
    return Group(_changes(changes), f"By the rule of choosing, the bundle is {kept}: {_RULE}.")


def render_rule(figures: RuleFigures, compared: bool) -> RenderableType:
    """Return the tables of the rule in full; without a baseline, the figures of one bundle."""
    parts: list[RenderableType] = []
    for name, changes in (("answers", figures.answers), ("relevance", figures.relevance)):
        parts += ["", name, _changes(changes, compared)]
        if compared:
            parts.append(f"{'met' if is_kept(changes) else 'not met'}: {_RULE}")
    parts += ["", "shown, without deciding", _changes(figures.shown, compared)]
    if compared:
        kept = "kept" if figures.kept() else "not kept"
        parts += ["", f"By the rule of choosing, the bundle is {kept}."]
    return Group(*parts)


def _changes(changes: Sequence[SetChange], compared: bool = True) -> RenderableType:
    """Return the table of two bundles and plain methods, or of the second bundle alone."""
    methods = list(dict.fromkeys(name for change in changes for name in change.plain))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("set", overflow="fold")  # may be a path
    table.add_column("measure")
    counts = ("n", "wrong") if any(change.positives is not None for change in changes) else ("n",)
    for name in (*counts, *methods, *(("baseline", "bundle") if compared else ())):
        table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    table.add_column("change" if compared else "bundle", no_wrap=True)
    for change in changes:
        cells = [change.name, change.measure, str(change.n)]
        if len(counts) > 1:
            cells.append("" if change.positives is None else str(change.positives))
        cells += [_value(change.plain.get(name)) for name in methods]
        if compared:
            cells += [_value(change.first), _value(change.second)]
        cells.append(_with_interval(change.change if compared else change.second, "+" * compared))
        table.add_row(*cells)
    return table


def _value(estimate: Estimate | None, sign: str = "") -> str:
    return "" if estimate is None or estimate.value is None else _short(estimate.value, sign)


def _with_interval(estimate: Estimate, sign: str) -> str:
    interval = estimate.interval()
    shown = "" if interval is None else f" [{_short(interval[0])}, {_short(interval[1])}]"
    return _value(estimate, sign) + shown


def _short(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3f}".replace("0.", ".", 1)
