"""One row of a verdict file for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from trivet.errors import DataError
from trivet.report.answer import displayed_texts
from trivet.report.terminal import render_verdict, visible
from trivet.report.verdict_files import VerdictFile, VerdictRow
from trivet.verdict_json import read_evaluation, read_scores


def find_row(rows: VerdictFile, name: str | None) -> VerdictRow:
    """Return the row with an id, else with a row number; without a name the least faithful one.

    Raises:
        DataError: There is no such row.
    """
    numbered = least = None
    lowest, count = 2.0, 0
    for row in rows:
        count += 1
        if name is not None and row.id == name:
            return row
        if name is not None and str(row.row) == name:
            numbered = row
        faithfulness = read_scores(row.verdict or {})["faithfulness"]
        score = 1.5 if faithfulness is None else faithfulness
        if least is None or score < lowest:
            least, lowest = row, score
    found = least if name is None else numbered
    if found is None:
        wanted = "" if name is None else f" with the id or the number {name}"
        raise DataError(f"{rows.path}: no row{wanted} among its {count} rows")
    return found


def render_row(row: VerdictRow) -> RenderableType:
    """Return the place, the question and the verdict of a row, or the reason why it has none."""
    parts: list[RenderableType] = [Text(visible(f"row {row.row}, id {row.id}"), style="dim")]
    if row.question:
        parts.append(Text(visible(row.question), style="bold"))
    if row.error is not None:
        parts.append(Text(visible(f"no verdict ({row.error.code}): {row.error.message}")))
        return Group(*parts)
    verdict = read_evaluation(row.verdict or {})
    response, contexts, notes = displayed_texts(row, verdict)
    parts += [Text(), render_verdict(response, contexts, verdict)]
    return Group(*parts, *(Text(note, style="yellow") for note in notes))
