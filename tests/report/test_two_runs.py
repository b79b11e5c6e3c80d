"""Two runs: pairs of rows, paired differences, changed kinds, the answers that changed most."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from tests.report.rows import make_row
from trivet.errors import DataError
from trivet.report.tally import tally
from trivet.report.two_runs import Pairing, pair, render_comparison
from trivet.report.verdict_files import VerdictRow

NAMES = ("old", "new")
ABOUTS = ({"bundle": "one"}, {"bundle": "two"})


def run(change: Callable[[int], float]) -> list[VerdictRow]:
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


def paired(first: list[VerdictRow], second: list[VerdictRow]) -> Pairing:
    return pair(tally(first), tally(second))


def test_differences_kinds_and_cards() -> None:
    second = run(lambda n: 0.1 if n > 3 else -n / 10)
    page = render_comparison((run(lambda n: 0.0), second), NAMES, ABOUTS, shown=8)
    scores = page.partition("<h2>Scores</h2>")[2].partition("</section>")[0]
    row = re.findall(r"(?:</span>|</small>)([^<]*)(?:</td>| <small>)", scores)[:8]
    assert row[:4] == ["faithfulness", "0.450", "0.475", "+0.025"]
    assert row[5:] == ["9", "3", "12"]
    kinds = page.partition("<h2>Verdicts</h2>")[2].partition("</section>")[0]
    assert re.findall(r"</span>([^<]*)</td>", kinds)[:5] == ["unsupported", "12", "3", "0", "9"]
    assert re.findall(r"</span>([^<]*)</td>", kinds)[5:] == ["supported", "0", "9", "9", "0"]
    assert "<h2>B - A by topic</h2>" in page
    cards = page.partition('<div id="answers">')[2]
    assert re.findall(r"<h3>row \d+ · (q\d+)", cards)[:2] == ["q3", "q2"]
    assert 'data-scores="-0.3000 0.0000 0.0000 0.0000"' in cards
    text = re.sub(r"<su.*?</su.>|<[^>]*>", "", cards)
    assert "Answer 3 at 0.0." in text and "Answer 3 at -0.3." in text
    assert "no longer unsupported" in cards
    assert cards.count("<article") == 8


def test_a_pair_that_is_to_check_in_one_run_is_counted_and_named() -> None:
    span = {"start": 0, "end": 1, "text": "A", "probability": 0.1}
    runs = run(lambda _: 0.3), [make_row(n, 0.75, id_=f"q{n}", to_check=[span]) for n in (1, 2)]
    page = render_comparison(runs, NAMES, ABOUTS)
    kinds = page.partition("<h2>Verdicts</h2>")[2].partition("</section>")[0]
    cells = re.findall(r"</span>([^<]*)</td>", kinds)
    assert cells == ["to check", "0", "2", "2", "0", "supported", "2", "0", "0", "2"]
    assert page.count('<span class="kind">newly to check</span>') == 2
    assert "same verdict</span>" not in page and "newly abstains" not in page


def test_unpaired_rows_and_other_questions_are_reported() -> None:
    second = [make_row(n, id_=f"q{n}", question="Another?") for n in range(5, 20)]
    page = render_comparison((run(lambda n: 0.0), second), NAMES, ABOUTS, remarks=["A: old."])
    assert "8 rows are paired by their id" in page
    assert "4 rows of A and 7 of B have no partner" in page
    assert "8 pairs have two different questions" in page
    assert "A: old." in page


def test_runs_without_a_common_row_are_refused() -> None:
    with pytest.raises(DataError, match=r"no row of one run \(1 rows\) has the id or the number"):
        paired([make_row(1, id_="a")], [make_row(2, id_="b")])


def test_ids_pair_rows_in_any_order() -> None:
    first = [make_row(n, n / 10, id_=f"q{n}") for n in range(1, 9)]
    second = [make_row(20 - n, n / 10 + 0.05, id_=f"q{n}") for n in range(3, 10)]
    pairs = paired(first, second)
    assert (pairs.by, pairs.alone) == ("id", (2, 1))
    assert pairs.places[0].tolist() == [2, 3, 4, 5, 6, 7]
    assert pairs.difference("faithfulness") == pytest.approx([0.05] * 6)
    mean = pairs.mean_difference("faithfulness")
    # All rows have the same question, so there is no interval.
    assert mean.value == pytest.approx(0.05)
    assert (mean.low, mean.n) == (None, 6)


def test_rows_without_unique_ids_are_paired_by_number() -> None:
    first = [make_row(n, 0.4, id_="same", question=f"q{n}") for n in range(1, 9)]
    pairs = paired(first, [make_row(n, n / 10, id_=None, question=f"q{n}") for n in range(1, 9)])
    assert (pairs.by, pairs.other_questions()) == ("row", 0)
    mean = pairs.mean_difference("faithfulness")
    assert mean.value == pytest.approx(0.05)
    assert mean.low is not None and mean.high is not None and mean.low < 0 < mean.high
    assert pairs.mean_difference("faithfulness", np.arange(8) < 3).value == pytest.approx(-0.2)
