"""The figures of a grid: computed by hand, and equal to those of `trivet.measures.metrics`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.measures.verdicts import FAILED, SENTENCES, predicted, verdict
from trivet.ablation.comparison import Compared, compare_runs
from trivet.ablation.grid import Run
from trivet.ablation.scores import RowScore, read_scores, score_row, write_scores
from trivet.ablation.table import t_interval, values_of
from trivet.configs.schema import TrainConfig
from trivet.errors import DataError
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.records import ContextSpan, Labels, Span

CELLS = ("plain", "other")


def scored(number: int, relevance: float, **more: object) -> RowScore:
    """Return a row that is nothing but its own group; the true relevance is 0."""
    row = RowScore("t", number, str(number), "made/up", f"g{number}", None)
    return dataclasses.replace(row, relevance=relevance, relevance_true=0.0, **more)  # type: ignore[arg-type]


def runs_of(*cells_and_seeds: tuple[str, int]) -> list[Run]:
    return [Run(cell, seed, Path(cell), TrainConfig()) for cell, seed in cells_and_seeds]


def compared(runs: Sequence[Sequence[RowScore]], name: str) -> Compared:
    (found,) = [one for one in compare_runs(runs) if one.measure == name]
    return found


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
    one = compared([plain, other, other, worse], "relevance_rmse")
    first, second = values_of(one, runs, CELLS)
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
    every = [scored(0, 0.1, utilization=0.1, utilization_true=0.0), scored(1, 0.3)]
    lacking = [dataclasses.replace(row, relevance=None) for row in every]
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
    def rows(*faithfulness: float) -> list[RowScore]:
        values = enumerate(faithfulness)
        return [scored(n, 0.0, faithfulness=value, adherent=n > 0) for n, value in values]

    one = compared([rows(0.1, 0.2, 0.3, 0.4), rows(0.3, 0.2, 0.1, 0.4)], "hallucination_auroc")
    assert 0.5 < one.estimates[0].defined_share() < 0.95
    _, other = values_of(one, runs_of(("plain", 0), ("other", 0)), CELLS)
    assert other.difference == pytest.approx(1 / 3 - 1)
    assert (other.rows_low, other.rows_high) == (None, None)


def test_a_family_is_joined_as_its_protocol_says() -> None:
    def names(family: str) -> set[str]:
        rows = [scored(number, 0.1, source=f"{family}/{number % 2}") for number in range(4)]
        return {one.source for one in compare_runs([rows]) if one.overall}

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
    failed = dataclasses.replace(whole[2], relevance=None, relevance_true=None, failed="too_long")
    one = compared([whole, [*whole[:2], failed]], "relevance_rmse")
    assert one.n == 2
    assert one.estimates[0].value == pytest.approx((0.05 / 2) ** 0.5)


def test_rows_of_another_data_set_are_refused() -> None:
    with pytest.raises(DataError, match="measured on different rows"):
        compare_runs([[scored(0, 0.1)], [scored(1, 0.1)]])


def test_leak_free_rows_are_measured_alone_if_leaks_are_known() -> None:
    rows = [scored(n, n / 10, leaked=leaked) for n, leaked in enumerate([True, False, False])]
    also = [dataclasses.replace(one, leaked=one.row == 1) for one in rows]
    found = {one.source: one for one in compare_runs([rows, also])}
    assert {name: one.n for name, one in found.items()} == {
        "made/up": 3,
        "made/up, leak-free rows": 1,
    }
    free = found["made/up, leak-free rows"]
    assert [one.value for one in free.estimates] == pytest.approx([0.2, 0.2])
    assert free.overall
    unknown = [dataclasses.replace(one, leaked=None) for one in rows]
    assert len(compare_runs([rows, unknown])) == 1


# Against the measures of one run --------------------------------------------------------------

SPANS = tuple(ContextSpan(0, start, end) for start, end in SENTENCES)


def drawn(number: int, random: np.random.Generator) -> Prediction:
    """Return a made-up row of one of three sources, with labels, and a verdict or a failure."""
    gold = tuple(span for span in (Span(6, 11), Span(20, 24)) if random.random() < 0.4)
    labels = Labels(
        unsupported=gold if number % 7 else None,
        adherent=not gold,
        relevant=SPANS[: number // 3 % 3],
        utilized=SPANS[1 : number % 4],
        relevance=0.25 if number % 2 else None,
    )
    first, second, *scores = random.random(6).tolist()
    flagged = ((0, 10),) * (first < 0.5) + ((20, 30),) * (second < 0.5)
    found = verdict(first, flagged, scores[0], scores[1], scores[2], probs=(second, scores[3]))
    source = ("ragbench/one", "ragbench/two", "ragtruth/qa")[number % 3]
    evaluation = FAILED if number % 13 == 5 else found
    return predicted(labels, evaluation, source, f"g{number % 11}")


def test_one_run_has_the_figures_that_trivet_test_gives(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = [drawn(number, random) for number in range(120)]
    figures = {
        (figure.source, figure.measure): (figure.value, figure.low, figure.high, figure.n)
        for figure in measure(rows)
        if figure.generator is None
    }
    kept = [score_row("t", n, row.example, row.evaluation) for n, row in enumerate(rows)]
    write_scores(tmp_path / "scores.jsonl", kept)
    again = read_scores(tmp_path / "scores.jsonl")
    assert "Foxes" not in (tmp_path / "scores.jsonl").read_text(encoding="utf-8")
    found = {}
    for one in compare_runs([again]):
        low, high = one.estimates[0].interval() or (None, None)
        found[one.source, one.measure] = (one.estimates[0].value, low, high, one.n)
    sources = {"ragbench/one", "ragbench/two", "ragbench/mean", "ragbench/pooled", "ragtruth/qa"}
    assert {source for source, _ in found} == sources
    assert len(found) == 5 * 11
    for key, figure in found.items():
        assert figure == pytest.approx(figures[key], abs=1e-9), key


def test_a_line_that_is_no_row_score_is_named(tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    write_scores(path, [scored(0, 0.5)])
    path.write_text(path.read_text(encoding="utf-8") + '{"row": 1}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"scores\.jsonl, line 2: no row score"):
        read_scores(path)
