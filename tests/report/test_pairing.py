"""Rows of two runs are paired by what names them; differences are second minus first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from trivet.records import DataError, FailedEvaluation
from trivet.report.comparison_page import pair
from trivet.report.tally import Limits, Tally, tally
from trivet.report.verdict_files import VerdictRow

MakeRow = Callable[..., VerdictRow]


def counted(rows: list[VerdictRow]) -> Tally:
    return tally(rows, Limits())


def test_ids_pair_rows_wherever_they_stand(make_row: MakeRow) -> None:
    first = counted([make_row(n, n / 10, id_=f"q{n}") for n in range(1, 9)])
    second = counted([make_row(20 - n, n / 10 + 0.05, id_=f"q{n}") for n in range(3, 10)])
    pairs = pair(first, second)
    assert (pairs.by, pairs.alone) == ("id", (2, 1))
    assert pairs.places[0].tolist() == [2, 3, 4, 5, 6, 7]
    assert pairs.difference("faithfulness") == pytest.approx([0.05] * 6)
    mean = pairs.mean_difference("faithfulness")
    # All questions are one here, so nothing is said about other questions.
    assert mean.value == pytest.approx(0.05)
    assert (mean.low, mean.n) == (None, 6)


def test_without_names_of_their_own_rows_are_paired_by_number(make_row: MakeRow) -> None:
    first = counted([make_row(n, 0.4, id_="same", question=f"q{n}") for n in range(1, 9)])
    second = counted([make_row(n, n / 10, id_=None, question=f"q{n}") for n in range(1, 9)])
    pairs = pair(first, second)
    assert (pairs.by, pairs.other_questions()) == ("row", 0)
    mean = pairs.mean_difference("faithfulness")
    assert mean.value == pytest.approx(0.05)
    assert mean.low is not None and mean.high is not None and mean.low < 0 < mean.high
    assert pairs.mean_difference("faithfulness", np.arange(8) < 3).value == pytest.approx(-0.2)


def test_failures_and_other_questions_are_seen(make_row: MakeRow) -> None:
    failed = FailedEvaluation("b", "empty_contexts", "none")
    first = counted([make_row(1, 0.4, id_="a"), make_row(2, 0.4, id_="b")])
    second = counted(
        [make_row(1, 0.6, id_="a", question="Who?"), make_row(2, id_="b", error=failed)]
    )
    pairs = pair(first, second)
    assert pairs.judged.tolist() == [True, False]
    assert pairs.other_questions() == 1
    assert pairs.mean_difference("faithfulness").n == 1


def test_runs_without_a_common_row_are_refused(make_row: MakeRow) -> None:
    with pytest.raises(DataError, match=r"no row of one run \(1 rows\) has the id or the number"):
        pair(counted([make_row(1, id_="a")]), counted([make_row(2, id_="b")]))
