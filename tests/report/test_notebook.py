"""A verdict shows itself in a notebook and in a terminal, of what it alone holds."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

from trivet.report.verdict_files import VerdictRow
from trivet.verdict_json import read_evaluation

MakeRow = Callable[..., VerdictRow]


def test_a_notebook_shows_the_answer_and_runs_nothing(make_row: MakeRow) -> None:
    html = read_evaluation(make_row().verdict or {})._repr_html_()
    assert "It was built of stone in 1817." in html
    assert 'class="tv-unsupported tv-b8"' in html
    assert "<script" not in html and "<html" not in html
    assert html.lstrip().startswith('<div class="tv">')


def test_a_terminal_shows_it_through_rich(make_row: MakeRow) -> None:
    verdict = read_evaluation(make_row(response="The \x1b[2J mill is old.").verdict or {})
    file = io.StringIO()
    Console(file=file, width=100).print(verdict)
    text = file.getvalue()
    assert "faithfulness" in text and "not adherent" in text
    assert "0.250    not supported" in text
    assert "It was built of stone in 1817." in text
    assert "\x1b" not in text
