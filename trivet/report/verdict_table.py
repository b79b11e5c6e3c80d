"""Verdicts of a small log as a table in a terminal, the worst answers first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trivet.errors import DataError
from trivet.records import Evaluation
from trivet.report.answer import displayed_texts
from trivet.report.reasons import find_reasons
from trivet.report.terminal import UNSUPPORTED_STYLE, number, shortened, visible
from trivet.report.verdict_files import VerdictRow
from trivet.report.wording import NO_RESPONSE, verdict_word
from trivet.verdict_json import read_evaluation, read_scores

_MOST = 40  # rows
_MAX_NAME = 24  # characters of a name
_LAST = 2.0  # above every score


def render_table(rows: Iterable[VerdictRow]) -> RenderableType:
    """Return the rows with the lowest faithfulness, and how many are left out."""
    count = 0

    def ranked() -> Iterable[tuple[float, int, VerdictRow]]:
        nonlocal count
        for count, row in enumerate(rows, start=1):  # noqa: B007 (the last one is the number)
            score = read_scores(row.verdict or {})["faithfulness"]
            yield _LAST if score is None else score, row.row, row

    table = Table("row", "verdict", "faithfulness", "why", box=None, padding=(0, 2, 0, 0))
    for _, _, row in heapq.nsmallest(_MOST, ranked()):
        table.add_row(Text(visible(_name(row)), no_wrap=True), *_cells(row))
    if count <= _MOST:
        return table
    more = f"{count - _MOST:,} more rows; --out FILE keeps them all, and --report makes a page"
    return Group(table, Text(more, style="dim"))


def _name(row: VerdictRow) -> str:
    name = " ".join((row.id or str(row.row)).split())
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def _cells(row: VerdictRow) -> tuple[Text, str, Text]:
    if row.error is not None:
        return Text("failed", no_wrap=True), "-", shortened(row.error.message)
    try:
        verdict = read_evaluation(row.verdict or {})
    except DataError as error:
        return Text("failed", no_wrap=True), "-", shortened(str(error))
    word = verdict_word(verdict) or NO_RESPONSE
    style = UNSUPPORTED_STYLE if verdict.adherent is False else ""
    return Text(word, style, no_wrap=True), number(verdict.faithfulness, ".2f"), _why(row, verdict)


def _why(row: VerdictRow, verdict: Evaluation) -> Text:
    """Return the reason of the first unsupported value, or else the first unsupported text."""
    if not verdict.unsupported:
        return Text()
    if any(span.reason != "not_supported" for span in verdict.unsupported):
        return shortened(str(find_reasons(verdict, displayed_texts(row, verdict)[1])[0]))
    return shortened(verdict.unsupported[0].text)
