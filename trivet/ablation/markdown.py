"""The table of a grid as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from trivet.ablation.comparison import MEASURES
from trivet.ablation.table import CellValue, Cost, Table
from trivet.report.pages import Section, interval, render_markdown, with_interval

TABLE = "table"  # stem of table.md and table.json
_BY_SOURCE = ("hallucination_auroc", "relevance_rmse", "utilization_rmse", "span_f1")

_COST = (
    "cell",
    "differs in",
    "seeds",
    "parameters",
    "steps",
    "training, s",
    "inference, s per 1000 windows",
    "backend",
    "failed rows",
    "remarks",
)
_READING = (
    "A value is the mean over seeds with Student's 95 % interval. ↑ higher is better, ↓ lower is "
    "better.",
    "A difference is to the first cell, over the seeds of both. Its 95 % interval over rows is a "
    "paired bootstrap: source documents are resampled, alike for both cells, and the differences "
    "of all seeds are averaged within each resample. Its interval over seeds is Student's, of the "
    "paired differences. A real effect excludes 0 in both.",
)


def write_table(table: Table, folder: Path) -> str:
    """Write ``table.md`` and ``table.json``; return the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    text = to_markdown(table)
    (folder / f"{TABLE}.md").write_text(text, encoding="utf-8")
    (folder / f"{TABLE}.json").write_text(table.to_json() + "\n", encoding="utf-8")
    return text


def to_markdown(table: Table) -> str:
    """Return the sections of the table as Markdown."""
    title = f"Ablation {table.name}: {len(table.cells)} cells, {len(table.seeds)} seeds"
    return render_markdown(title, _sections(table))


def _sections(table: Table) -> list[Section]:
    missing = (
        f"Not finished, and not included: {', '.join(table.missing)}."
        if table.missing
        else "Every run is finished."
    )
    costs = [_cost_row(cost) for cost in table.costs]
    sections = [
        Section("How to read this", [missing, *_READING, f"Command: {table.command}"]),
        Section("Cells and their costs", (), _COST, costs),
    ]
    overall = [value for value in table.values if value.overall]
    for (test, source), group in groupby(overall, key=lambda value: (value.test, value.source)):
        values = list(group)
        sections.append(_values_section(f"{test}: {source}", values, table))
        differences = [value for value in values if value.difference is not None]
        if differences:
            sections.append(_differences_section(f"{test}: {source}", differences, table))
    rest = [value for value in table.values if not value.overall and value.measure in _BY_SOURCE]
    if rest:
        sections.append(_by_source(rest, table))
    return sections


def _cost_row(cost: Cost) -> list[str]:
    return [
        cost.cell,
        " ".join(cost.overrides) or "nothing",
        " ".join(map(str, cost.seeds)) or "none yet",
        "-" if cost.parameters is None else f"{cost.parameters:,}",
        " ".join("?" if steps is None else str(steps) for steps in dict.fromkeys(cost.steps))
        or "-",
        with_interval(cost.training_seconds, cost.training_low, cost.training_high, ".0f"),
        with_interval(cost.inference_seconds, cost.inference_low, cost.inference_high, ".2f"),
        cost.device or "-",
        str(cost.failed_rows),
        "; ".join(cost.remarks),
    ]


def _values_section(title: str, values: Sequence[CellValue], table: Table) -> Section:
    rows = []
    for measure in dict.fromkeys(value.measure for value in values):
        by_cell = {value.cell: value for value in values if value.measure == measure}
        rows.append([_arrow(measure), *_rows_cells(by_cell), *_cells(by_cell, table)])
    return Section(title, (), _header("measure", table), rows)


def _differences_section(title: str, values: Sequence[CellValue], table: Table) -> Section:
    rows = []
    for measure in dict.fromkeys(value.measure for value in values):
        of_measure = [value for value in values if value.measure == measure]
        for paired in of_measure:
            ranges = (paired.rows_low, paired.rows_high), (paired.seeds_low, paired.seeds_high)
            cells = (interval(*ends, "+.3f") for ends in ranges)
            rows.append([_arrow(measure), paired.cell, f"{paired.difference:+.3f}", *cells])
    against = f"difference to {table.cells[0]}"
    header = ("measure", "cell", against, "95 % over rows", "95 % over seeds")
    return Section(f"{title}, against {table.cells[0]}", (), header, rows)


def _by_source(values: Sequence[CellValue], table: Table) -> Section:
    rows = []
    for (test, source, measure), group in groupby(
        values, key=lambda value: (value.test, value.source, value.measure)
    ):
        by_cell = {value.cell: value for value in group}
        row = [f"{test}: {source}", _arrow(measure), *_rows_cells(by_cell)]
        rows.append([*row, *_cells(by_cell, table)])
    return Section("By source", (), ("source", *_header("measure", table)), rows)


def _header(first: str, table: Table) -> tuple[str, ...]:
    return (first, "rows", "positives", "groups", *table.cells)


def _rows_cells(by_cell: dict[str, CellValue]) -> tuple[str, str, str]:
    value = next(iter(by_cell.values()))
    return str(value.n), "-" if value.positives is None else str(value.positives), str(value.groups)


def _cells(by_cell: dict[str, CellValue], table: Table) -> list[str]:
    values = [by_cell.get(cell) for cell in table.cells]
    return [
        "-" if value is None else with_interval(value.mean, value.low, value.high)
        for value in values
    ]


def _arrow(measure: str) -> str:
    return f"{measure} {'↑' if MEASURES[measure] else '↓'}"
