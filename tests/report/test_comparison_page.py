"""Two runs: paired differences, kinds that came and went, the answers that changed most."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from trivet.records import ConfigError
from trivet.report.comparison_page import render_comparison
from trivet.report.verdict_files import VerdictRow

MakeRow = Callable[..., VerdictRow]
NAMES = ("old", "new")
ABOUTS = ({"bundle": "one"}, {"bundle": "two"})


def run(make_row: MakeRow, change: Callable[[int], float]) -> list[VerdictRow]:
    return [
        make_row(
            n,
            0.45 + change(n),
            id_=f"q{n}",
            question=f"Question {n}?",
            response=f"Answer {n} at {change(n)}.",
            metadata={"topic": "even" if n % 2 == 0 else "odd"},
        )
        for n in range(1, 13)
    ]


def test_differences_kinds_and_cards(make_row: MakeRow) -> None:
    first = run(make_row, lambda n: 0.0)
    second = run(make_row, lambda n: 0.1 if n > 3 else -n / 10)
    page = render_comparison((first, second), NAMES, ABOUTS, shown=8)
    scores = page.partition("<h2>Scores</h2>")[2].partition("</section>")[0]
    row = re.findall(r"<td[^>]*>([^<]*)</td>", scores)[:8]
    assert row[:4] == ["faithfulness", "0.450", "0.475", "+0.025"]
    assert row[5:] == ["9", "3", "12"]
    kinds = page.partition("<h2>Kinds of failure</h2>")[2].partition("</section>")[0]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", kinds)[:5] == ["made up", "12", "3", "0", "9"]
    assert "<h2>B - A by topic</h2>" in page
    cards = page.partition('<div id="answers">')[2]
    assert re.findall(r"<h3>row \d+ · (q\d+)", cards)[:2] == ["q3", "q2"]
    assert 'data-scores="-0.3000 0.0000 0.0000 0.0000"' in cards
    text = re.sub(r"<su.*?</su.>|<[^>]*>", "", cards)
    assert "Answer 3 at 0.0." in text and "Answer 3 at -0.3." in text
    assert "no longer made up" in cards
    assert cards.count("<article") == 8


def test_rows_alone_and_other_questions_are_told(make_row: MakeRow) -> None:
    first = run(make_row, lambda n: 0.0)
    second = [make_row(n, id_=f"q{n}", question="Another?") for n in range(5, 20)]
    page = render_comparison((first, second), NAMES, ABOUTS, remarks=["A: not finished."])
    assert "8 rows are paired by their id" in page
    assert "4 rows of A and 7 of B have no partner" in page
    assert "8 pairs have two different questions" in page
    assert "A: not finished." in page


def test_wrong_requests_are_refused(make_row: MakeRow) -> None:
    rows = run(make_row, lambda n: 0.0)
    with pytest.raises(ConfigError, match="-2 answers"):
        render_comparison((rows, rows), NAMES, ABOUTS, shown=-2)
    with pytest.raises(ConfigError, match="not an iterator"):
        render_comparison((rows, iter(rows)), NAMES, ABOUTS)
