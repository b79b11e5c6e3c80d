"""Figures of a model, and the choice between two, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trivet.measures.choosing import SetChange
    from trivet.measures.figures import Figure


def render_figures(figures: Iterable[Figure]) -> RenderableType:
    """Return a table for each source, generator and length, with its notes below."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from trivet.report.terminal import visible

    parts: list[RenderableType] = []
    for title, group in groupby(figures, key=lambda one: one.to_cells()[0]):
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("measure", overflow="fold")  # long names give way to the values
        for name in ("value", "95 % interval", "n", "positives", "groups", "fail"):
            table.add_column(name, justify="right", no_wrap=True)
        notes = []
        for one in group:
            table.add_row(*one.to_cells()[1:-1])  # without source and note
            if one.note:
                notes.append(Text(visible(f"{one.measure}: {one.note}"), style="dim"))
        parts += [Text(visible(title), style="bold"), table]
        parts += [Padding(note, (0, 0, 0, 2)) for note in notes]
    return Group(*parts)


def render_choice(changes: Sequence[SetChange]) -> RenderableType:
    """Return the table of two bundles on several sets, with the decision below it."""
    from rich.console import Group
    from rich.table import Table

    from trivet.measures.choosing import is_kept

    table = Table("set", "n", "hallucinated", "counting words", "against", "bundle", "change")
    for one in changes:
        values = (one.counting.value, one.first.value, one.second.value)
        interval = one.change.interval()
        change = "" if one.change.value is None else f"{one.change.value:+.3f}"
        change += "" if interval is None else f" [{interval[0]:+.3f}, {interval[1]:+.3f}]"
        texts = ("" if value is None else f"{value:.3f}" for value in values)
        table.add_row(one.name, f"{one.n:,}", f"{one.positives:,}", *texts, change)
    kept = "kept" if is_kept(changes) else "not kept"
    rule = "the mean must rise, and no set fall by more than .01"
    return Group(table, f"By the rule of choosing, the bundle is {kept}: {rule}.")
