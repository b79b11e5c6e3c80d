"""Figures of predictions: by hand, against scikit-learn, per source and per family."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from tests.measures.verdicts import FAILED, predicted, verdict
from trivet.measures.figures import Figure
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction, scored_units
from trivet.records import ContextSpan, LabelledExample, Labels, RagExample, Span


def table(figures: list[Figure]) -> dict[str, Figure]:
    named = {
        "/".join(filter(None, (figure.source, figure.generator, figure.measure))): figure
        for figure in figures
    }
    assert len(named) == len(figures), "two figures of one name"
    return named


def test_the_response_level_by_hand() -> None:
    adherent = {0.1: False, 0.6: False, 0.8: False, 0.4: True, 0.7: True, 0.9: True}
    rows = [
        predicted(Labels(adherent=truth), verdict(faithfulness), group=f"g{faithfulness}")
        for faithfulness, truth in adherent.items()
    ]
    figures = table(measure(rows))
    for name, value in (
        ("auroc", 6 / 9),
        # All three are found from 0.8 on, which flags 0.4 and 0.7 of the adherent ones.
        ("fpr_at_recall_90", 2 / 3),
        ("fpr_at_recall_95", 2 / 3),
        ("precision", 1 / 2),
        ("recall", 1 / 3),
        ("f1", 2 / 5),
        ("accuracy", 3 / 6),
        ("f1_best_threshold", 3 / 4),  # at 0.85 five are flagged, and all three hallucinations
        # Each score is alone in its bin: .9, .4 and .2 should be 1, and .6, .3 and .1 should be 0.
        ("ece", (0.1 + 0.6 + 0.8 + 0.6 + 0.3 + 0.1) / 6),
    ):
        assert figures[f"logs/hallucination_{name}"].value == pytest.approx(value), name
    note = figures["logs/hallucination_f1_best_threshold"].note
    assert note is not None and note.startswith("threshold 0.8500 was chosen on these very rows")
    for figure in figures.values():
        assert (figure.n, figure.positives, figure.groups, figure.failed) == (6, 3, 6, 0)


def test_counting_words_stands_beside_the_verdict() -> None:
    texts = {"Nobody keeps sheep here.": False, "The mill is old.": True}
    rows = [
        Prediction(
            LabelledExample(
                RagExample("What is old?", ("The mill here is old.",), text),
                Labels(adherent=truth),
                source="logs",
                group=text,
            ),
            verdict(0.5),
        )
        for text, truth in texts.items()
    ]
    assert table(measure(rows))["logs/word_counting_auroc"].value == 1.0


def test_failed_rows_are_counted_and_stand_in_no_mean() -> None:
    labels = Labels(adherent=True, relevance=0.5, unsupported=())
    whole = [
        predicted(Labels(adherent=False, relevance=0.1), verdict(0.2), group="a"),
        predicted(labels, verdict(0.9), group="b"),
    ]
    failed = [
        predicted(labels, FAILED, group="c"),
        predicted(labels, verdict(None, relevance=None), group="d"),
    ]
    with_failed, without = table(measure(whole + failed)), table(measure(whole))
    for name, figure in without.items():
        assert figure.failed == 0
        assert (with_failed[name].value, with_failed[name].n) == (figure.value, figure.n)
    for name in ("hallucination_auroc", "relevance_rmse", "span_f1"):
        assert with_failed[f"logs/{name}"].failed == 2


@pytest.mark.parametrize(
    ("adherent", "reason"),
    [(True, "undefined: no hallucinated row"), (False, "undefined: no adherent row")],
)
def test_one_class_is_undefined_with_the_reason(adherent: bool, reason: str) -> None:
    rows = [predicted(Labels(adherent=adherent), verdict(0.1 * i), group=f"g{i}") for i in range(9)]
    figures = table(measure(rows))
    figure = figures["logs/hallucination_auroc"]
    assert (figure.value, figure.low, figure.high) == (None, None, None)
    assert (figure.note, figure.n) == (reason, 9)
    for percent in (90, 95):
        alarms = figures[f"logs/hallucination_fpr_at_recall_{percent}"]
        assert alarms.value is None and (alarms.note or "").startswith(reason)
    assert figures["logs/hallucination_accuracy"].value == (4 if adherent else 5) / 9


def test_span_characters_by_hand() -> None:
    rows = [
        # Gold 20..38 (18 characters), flagged 25..38 and 0..5: 13 hits of 18 flagged.
        predicted(Labels(unsupported=(Span(20, 38),)), verdict(0.1, ((25, 38), (0, 5)))),
        # No gold, 4 flagged: all of them wrong.
        predicted(Labels(unsupported=()), verdict(0.4, ((20, 24),))),
        # Gold spans that overlap each other count once: 6 characters, none flagged.
        predicted(Labels(unsupported=(Span(0, 4), Span(2, 6))), verdict(0.9)),
        # Unknown is not none.
        predicted(Labels(unsupported=None), verdict(0.1, ((0, 38),))),
    ]
    figures = table(measure(rows))
    precision, recall = 13 / 22, 13 / 24
    assert figures["logs/span_precision"].value == pytest.approx(precision)
    assert figures["logs/span_recall"].value == pytest.approx(recall)
    f1 = 2 * precision * recall / (precision + recall)
    assert figures["logs/span_f1"].value == pytest.approx(f1)
    assert (figures["logs/span_f1"].n, figures["logs/span_f1"].positives) == (3, 2)


def test_without_a_score_the_marked_context_sentences_are_counted() -> None:
    both = (ContextSpan(0, 0, 19), ContextSpan(0, 20, 36))
    labels = Labels(relevant=both, utilized=both[:1])
    evaluation = verdict(relevance=0.75, utilization=0.25, completeness=1.0)
    figures = table(measure([predicted(labels, evaluation)]))
    for name, error in (("relevance", 0.25), ("utilization", 0.25), ("completeness", 0.5)):
        assert figures[f"logs/{name}_rmse"].value == pytest.approx(error)
    # Sentences say .75 relevant where all are, .25 utilized where half are.
    assert figures["logs/relevance_ece"].value == pytest.approx(0.25)
    assert figures["logs/utilization_ece"].value == pytest.approx(0.25)


def width(figure: Figure) -> float:
    assert figure.low is not None and figure.high is not None
    return figure.high - figure.low


def sets() -> list[Prediction]:
    """Three component sets of 30 groups each; the third knows one class alone."""
    random = np.random.default_rng(9)
    rows = []
    for name in ("a", "b", "c"):
        for i in range(60):
            adherent = bool(name == "c" or random.random() < 0.7)
            score = float(np.clip(random.normal(0.6 if adherent else 0.4, 0.2), 0, 1))
            labels = Labels(adherent=adherent, relevance=float(random.random()))
            rows.append(predicted(labels, verdict(score), f"ragbench/{name}", f"g{i // 2}"))
    return rows


def test_the_mean_over_sets_weighs_each_set_once_and_names_what_it_lacks() -> None:
    rows = sets()[:-40]  # the third set is smaller
    figures = table(measure(rows))
    values = [figures[f"ragbench/{name}/relevance_rmse"].value for name in "abc"]
    mean = figures["ragbench/mean/relevance_rmse"]
    assert mean.value == pytest.approx(np.mean([value or math.nan for value in values]))
    assert (mean.n, mean.groups, mean.note) == (140, 70, None)
    area = figures["ragbench/mean/hallucination_auroc"]
    parts = [figures[f"ragbench/{name}/hallucination_auroc"] for name in "ab"]
    assert area.value == pytest.approx(np.mean([part.value or math.nan for part in parts]))
    assert area.note == "mean over 2 of 3 sets, undefined in c"
    # The mean of two independent sets is surer than either of them.
    assert width(area) < min(map(width, parts))


def test_ragtruth_is_pooled_and_taken_within_each_generator() -> None:
    random = np.random.default_rng(3)
    rows = []
    for task in ("qa", "summary"):
        for i in range(40):
            adherent = bool(random.random() < 0.5)
            labels = Labels(adherent=adherent, unsupported=() if adherent else (Span(20, 38),))
            generator = "model-a" if i % 2 else "model-b"
            evaluation = verdict(float(random.random()), ((20, 30),) if i % 3 else ())
            rows.append(predicted(labels, evaluation, f"ragtruth/{task}", f"g{i // 4}", generator))
    figures = table(measure(rows))
    everything = figures["ragtruth/pooled/hallucination_auroc"]
    assert (everything.n, everything.groups) == (80, 10)
    units = scored_units(rows)["hallucination"]
    assert everything.value == pytest.approx(roc_auc_score(units.positive, units.probs))
    figure = figures["ragtruth/qa/model-a/span_f1"]
    alone = table(measure([row for row in rows[:40] if row.example.generator == "model-a"]))
    assert (figure.n, figure.groups) == (20, 10)
    assert figure.value == alone["ragtruth/qa/span_f1"].value
    assert figure.low is not None
    assert "ragtruth/mean/hallucination_auroc" not in figures


def test_ragtruths_tasks_share_one_threshold() -> None:
    # Summaries alone would be best at .35, answers at .65; together .65 is best (F1 6/7).
    tasks = {
        "qa": {0.1: False, 0.6: False, 0.8: True},
        "summary": {0.3: False, 0.4: True, 0.9: True},
    }
    rows = [
        predicted(Labels(adherent=adherent), verdict(score), f"ragtruth/{task}", f"{task}{score}")
        for task, scores in tasks.items()
        for score, adherent in scores.items()
    ]
    figures = table(measure(rows, resamples=20))
    for source, precision, recall, f1 in (
        ("qa", 1.0, 1.0, 1.0),
        ("summary", 1 / 2, 1.0, 2 / 3),
        ("pooled", 3 / 4, 1.0, 6 / 7),
    ):
        for name, value in (("precision", precision), ("recall", recall), ("f1", f1)):
            figure = figures[f"ragtruth/{source}/hallucination_{name}_common_threshold"]
            assert figure.value == pytest.approx(value), (source, name)
            assert figure.note is not None
            assert figure.note.startswith(
                "threshold 0.7000 has the best F1 on the measured rows of"
            )
    assert figures["ragtruth/summary/hallucination_f1_best_threshold"].value == 1.0
    pooled = figures["ragtruth/pooled/hallucination_f1_best_threshold"].value
    assert pooled == figures["ragtruth/pooled/hallucination_f1_common_threshold"].value
    assert not any("common" in name for name in table(measure(sets(), resamples=5)))


def test_ragbench_is_measured_by_set_by_vertical_pooled_and_as_a_mean() -> None:
    errors = {"hotpotqa": 0.1, "msmarco": 0.3, "covidqa": 0.2, "cuad": 0.4}
    rows = [
        predicted(Labels(relevance=0.5 - error), verdict(relevance=0.5), f"ragbench/{name}", name)
        for name, error in errors.items()
    ]
    figures = {figure.source: figure for figure in measure([*rows, rows[0]], resamples=5)}
    assert list(figures) == [
        *("ragbench/covidqa", "ragbench/cuad", "ragbench/hotpotqa", "ragbench/msmarco"),
        *("ragbench/general/pooled", "ragbench/pooled", "ragbench/mean"),
    ]
    assert figures["ragbench/general/pooled"].value == pytest.approx((0.11 / 3) ** 0.5)
    assert figures["ragbench/pooled"].value == pytest.approx((0.31 / 5) ** 0.5)
    assert figures["ragbench/mean"].value == pytest.approx(0.25)
    assert (figures["ragbench/general/pooled"].n, figures["ragbench/pooled"].groups) == (3, 4)


@given(st.permutations(range(24)))
def test_the_order_of_rows_changes_nothing(order: list[int]) -> None:
    rows = sets()[::5][:24]
    first, second = measure(rows, resamples=30), measure([rows[i] for i in order], resamples=30)
    assert [figure.measure for figure in first] == [figure.measure for figure in second]
    for figure, other in zip(first, second, strict=True):
        assert dataclasses.asdict(other) == pytest.approx(dataclasses.asdict(figure))


def test_a_verdict_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="1 of 1 numbers in the verdicts on \\['x'\\]"):
        measure([predicted(Labels(adherent=True), verdict(math.nan))])
