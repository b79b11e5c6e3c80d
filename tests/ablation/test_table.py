"""The figures of a grid, computed by hand, and the file of a run's verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.measures.verdicts import FAILED, predicted, verdict
from trivet.ablation.comparison import Compared, compare_runs
from trivet.ablation.grid import Run
from trivet.ablation.judged_rows import JudgedRow, read_rows, write_rows
from trivet.ablation.table import t_interval, values_of
from trivet.configs.schema import TrainConfig
from trivet.records import ContextSpan, Labels, Span

CELLS = ("plain", "other")


def scored(number: int, relevance: float | None, **more: Any) -> JudgedRow:
    """Return a row that is nothing but its own group; the true relevance is 0."""
    labels = Labels(relevance=0.0, adherent=more.get("adherent"), utilization=more.get("truth"))
    result = verdict(more.get("faithfulness"), (), relevance, more.get("utilization"))
    row = predicted(labels, result, more.get("source", "made/up"), f"g{number}")
    return JudgedRow("t", row, more.get("leaked"))


def runs_of(*cells_and_seeds: tuple[str, int]) -> list[Run]:
    return [Run(cell, seed, Path(cell), TrainConfig()) for cell, seed in cells_and_seeds]


def compared(runs: Sequence[Sequence[JudgedRow]], name: str) -> Compared:
    (measure,) = [compare_run for compare_run in compare_runs(runs) if compare_run.measure == name]
    return measure


# By hand --------------------------------------------------------------------------------------


def test_the_interval_over_seeds_is_students() -> None:
    assert t_interval([]) == (None, None, None)
    assert t_interval([0.5]) == (0.5, None, None)
    # Two values 0.2 apart: half of 12.706 (df 1) x 0.2.
    assert t_interval([0.4, 0.6]) == pytest.approx((0.5, 0.5 - 1.2706, 0.5 + 1.2706), abs=1e-4)
    # Three values: 4.303 (df 2) x sd 0.1 / sqrt 3.
    low, high = 0.5 - 0.24841, 0.5 + 0.24841
    assert t_interval([0.4, 0.5, 0.6]) == pytest.approx((0.5, low, high), abs=1e-4)


def test_a_difference_is_paired_over_rows_and_over_seeds() -> None:
    # Two documents. The RMSE of "plain" is 0.1 or 0.3 where one of them is drawn twice, 0.2236 on
    # both; that of "other" is 0.2 on whatever is drawn.
    plain, other = [scored(0, 0.1), scored(1, 0.3)], [scored(0, 0.2), scored(1, 0.2)]
    worse = [scored(0, 0.3), scored(1, 0.3)]
    runs = runs_of(("plain", 0), ("other", 0), ("plain", 1), ("other", 1))
    measure = compared([plain, other, other, worse], "relevance_rmse")
    first, second = values_of(measure, runs, CELLS)
    both = 0.05**0.5
    assert (first.n, first.groups, first.positives) == (2, 2, None)
    assert first.seeds == pytest.approx({0: both, 1: 0.2})
    assert first.mean == pytest.approx((both + 0.2) / 2)
    assert first.difference is None
    # Seed 0: 0.2 - 0.2236, seed 1: 0.3 - 0.2.
    apart = (0.2 - both, 0.1)
    assert second.difference == pytest.approx(sum(apart) / 2)
    assert (second.seeds_low, second.seeds_high) == pytest.approx(t_interval(apart)[1:])
    # The first document alone gives 0.1 and 0.1, the second -0.1 and 0.1.
    assert (second.rows_low, second.rows_high) == pytest.approx((0.0, 0.1))


def test_a_run_without_a_head_has_no_value_of_its_measures() -> None:
    def rows(*relevance: float | None) -> list[JudgedRow]:
        return [scored(0, relevance[0], utilization=0.1, truth=0.0), scored(1, relevance[1])]

    every, lacking = rows(0.1, 0.3), rows(None, None)
    runs = runs_of(("plain", 0), ("other", 0))
    first, second = values_of(compared([every, lacking], "relevance_rmse"), runs, CELLS)
    assert first.mean == pytest.approx(0.05**0.5) and first.n == 2
    assert (second.mean, second.difference, second.rows_low) == (None, None, None)
    first, second = values_of(compared([every, lacking], "utilization_rmse"), runs, CELLS)
    assert first.mean == second.mean == pytest.approx(0.1)
    none, some = values_of(compared([lacking, every], "relevance_rmse"), runs, CELLS)
    assert none.mean is None and some.mean is not None and some.difference is None


def test_a_difference_that_one_document_decides_has_no_interval_over_rows() -> None:
    # AUROC needs the one document with a hallucination: a third of the resamples lack it.
    def rows(*faithfulness: float) -> list[JudgedRow]:
        values = enumerate(faithfulness)
        return [scored(n, 0.0, faithfulness=value, adherent=n > 0) for n, value in values]

    measure = compared([rows(0.1, 0.2, 0.3, 0.4), rows(0.3, 0.2, 0.1, 0.4)], "hallucination_auroc")
    assert 0.5 < measure.estimates[0].defined_share() < 0.95
    _, other = values_of(measure, runs_of(("plain", 0), ("other", 0)), CELLS)
    assert other.difference == pytest.approx(1 / 3 - 1)
    assert (other.rows_low, other.rows_high) == (None, None)


def test_a_family_is_joined_as_its_protocol_says() -> None:
    def names(family: str) -> set[str]:
        rows = [scored(number, 0.1, source=f"{family}/{number % 2}") for number in range(4)]
        return {compare_run.source for compare_run in compare_runs([rows]) if compare_run.overall}

    assert names("ragbench") == {"ragbench/mean", "ragbench/pooled"}
    assert names("ragtruth") == {"ragtruth/pooled"}
    assert names("halubench") == {"halubench/mean", "halubench/pooled"}


def test_only_seeds_that_both_cells_have_are_compared() -> None:
    rows = [scored(0, 0.1), scored(1, 0.1)]
    worse = [scored(0, 0.4), scored(1, 0.4)]
    runs = runs_of(("plain", 0), ("other", 0), ("other", 1))
    _, other = values_of(compared([rows, worse, rows], "relevance_rmse"), runs, CELLS)
    assert other.mean == pytest.approx(0.25)
    assert other.difference == pytest.approx(0.3)
    assert other.seeds_low is None
    alone = values_of(compared([rows], "relevance_rmse"), runs_of(("other", 1)), CELLS)
    assert [value.cell for value in alone] == ["other"] and alone[0].difference is None


def test_a_row_that_fails_in_one_run_is_in_no_run() -> None:
    whole = [scored(0, 0.1), scored(1, 0.2), scored(2, 0.9)]
    failed = replace(whole[2].prediction, evaluation=FAILED)
    measure = compared(
        [whole, [*whole[:2], replace(whole[2], prediction=failed)]], "relevance_rmse"
    )
    assert measure.n == 2
    assert measure.estimates[0].value == pytest.approx((0.05 / 2) ** 0.5)


def test_leak_free_rows_are_measured_alone_if_leaks_are_known() -> None:
    rows = [scored(n, n / 10, leaked=leaked) for n, leaked in enumerate([True, False, False])]
    also = [replace(row, leaked=n == 1) for n, row in enumerate(rows)]
    by_source = {
        compare_run.source: compare_run
        for compare_run in compare_runs([rows, also])
        if compare_run.measure == "relevance_rmse"
    }
    assert {name: measure.n for name, measure in by_source.items()} == {
        "made/up": 3,
        "made/up, leak-free rows": 1,
    }
    free = by_source["made/up, leak-free rows"]
    assert [estimate.value for estimate in free.estimates] == pytest.approx([0.2, 0.2])
    assert free.overall
    unknown = [replace(row, leaked=None) for row in rows]
    assert len(compare_runs([rows, unknown])) == 1


def test_rows_and_verdicts_are_read_as_they_were_written(tmp_path: Path) -> None:
    # A verdict on the response says nothing about its spans, also where it is adherent.
    labels = Labels(adherent=True, relevant=(ContextSpan(0, 0, 5),), relevance=0.5)
    rows = [
        JudgedRow("t", predicted(labels, verdict(0.3, ((0, 5),))), True),
        JudgedRow("t", predicted(Labels(unsupported=(Span(0, 5),), adherent=False), FAILED), None),
    ]
    path = tmp_path / "verdicts.jsonl.gz"
    write_rows(path, rows)
    assert read_rows(path) == rows
