"""What an adaptation changed, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from trivet.adapt import Adapted


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
