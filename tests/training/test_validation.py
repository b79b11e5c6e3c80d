"""ValidationMeasures: per source, unknowns left out, never NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from trivet.training.validation import ValidationMeasures

NAN = math.nan


def update(measures: ValidationMeasures, source: list[str], **columns: list[float]) -> None:
    """Add a batch; columns that are not given are unknown."""

    def column(name: str, default: float) -> Tensor:
        return torch.tensor(columns.get(name, [default] * len(source)))

    truths = {"faithfulness": "adherent", "relevance": "relevance_true"}
    truths |= {"utilization": "utilization_true"}
    scores = {name: (column(name, 0.5), column(true, NAN)) for name, true in truths.items()}
    measures.update(source, scores)


def test_the_figures_of_a_small_example_written_out_by_hand() -> None:
    measures = ValidationMeasures()
    update(
        measures,
        ["a", "a", "b", "a", "b"],
        faithfulness=[0.1, 0.9, 0.2, 0.5, 0.8],
        adherent=[0.0, 1.0, 1.0, 1.0, 0.0],
        relevance=[0.0, 0.5, 1.0, 0.0, 0.5],
        relevance_true=[0.5, 0.5, 1.0, NAN, 0.5],
        utilization=[0.25, 0.0, 0.0, 0.0, 0.0],
        utilization_true=[0.75, NAN, NAN, NAN, NAN],
    )
    assert measures.compute() == pytest.approx(
        {
            "hallucination_auroc/a": 1.0,
            "hallucination_auroc/b": 0.0,
            "hallucination_auroc/mean": 0.5,
            "relevance_rmse/a": math.sqrt(0.25 / 2),
            "relevance_rmse/b": 0.0,
            "relevance_rmse/mean": math.sqrt(0.25 / 2) / 2,
            "utilization_rmse/a": 0.5,
            "utilization_rmse/mean": 0.5,
        }
    )


def test_batches_add_up_to_the_whole_and_agree_with_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    source = draw.choice(["a", "b/c.d"], 60)
    faithfulness, adherent = draw.random(60).round(1), draw.integers(0, 2, 60).astype(float)
    parts, whole = ValidationMeasures(), ValidationMeasures()
    for measures, size in ((parts, 7), (whole, 60)):
        for start in range(0, 60, size):
            rows = slice(start, start + size)
            columns = {"faithfulness": faithfulness[rows], "adherent": adherent[rows]}
            update(measures, source[rows].tolist(), **{k: v.tolist() for k, v in columns.items()})
    assert parts.compute() == pytest.approx(whole.compute())
    of_source = source == "a"
    expected = roc_auc_score(1 - adherent[of_source], 1 - faithfulness[of_source])
    assert whole.compute()["hallucination_auroc/a"] == pytest.approx(expected)


def test_a_source_of_one_class_or_without_truth_has_no_key_and_is_not_in_the_mean() -> None:
    measures = ValidationMeasures()
    update(measures, ["b", "b", "c"], adherent=[1.0, 1.0, NAN])
    assert measures.compute() == {}
    update(measures, ["a", "a"], faithfulness=[0.1, 0.9], adherent=[0.0, 1.0])
    assert measures.compute() == {"hallucination_auroc/a": 1.0, "hallucination_auroc/mean": 1.0}


def test_reset_forgets_and_compute_does_not() -> None:
    measures = ValidationMeasures()
    update(measures, ["a"], relevance=[0.25], relevance_true=[0.75])
    assert measures.compute() == measures.compute() != {}
    measures.reset()
    assert measures.compute() == {}


@pytest.mark.parametrize("wrong", [NAN, math.inf, -0.1, 1.1])
def test_a_prediction_that_is_no_probability_is_refused_by_name(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"utilization: 1 of 2 predictions are not in \[0, 1\]"):
        columns = {"utilization": [wrong, 0.5], "utilization_true": [0.5, 0.5]}
        update(ValidationMeasures(), ["a", "a"], **columns)
