"""How the sources of a family become one figure, and the measures that only some families need."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from trivet.measures.figures import Figure
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction, scored_units
from trivet.records import (
    Evaluation,
    FailedEvaluation,
    LabelledExample,
    Labels,
    RagExample,
)


def judged(source: str, adherent: bool, faithfulness: float | None, group: str) -> Prediction:
    example = RagExample(question="Hot?", contexts=("Cone six.",), response="Six.", id=group)
    verdict: Evaluation | FailedEvaluation = FailedEvaluation(group, "too_long", "too long")
    if faithfulness is not None:
        verdict = Evaluation(
            id=group,
            faithfulness=faithfulness,
            supported_share=1.0,
            relevance=0.5,
            utilization=0.5,
            completeness=0.5,
            adherent=faithfulness >= 0.5,
            unsupported=(),
            sentences=(),
            contexts=(),
            windows=1,
            window_size=512,
            cut_question_tokens=0,
            response_chunks=1,
            replaced_characters=0,
        )
    return Prediction(LabelledExample(example, Labels(adherent=adherent), source, group), verdict)


def random_rows(source: str, count: int, seed: int) -> list[Prediction]:
    random = np.random.default_rng(seed)
    return [
        judged(
            source,
            bool(random.random() < 0.6),
            round(float(random.random()), 2),
            f"{source}{i // 2}",
        )
        for i in range(count)
    ]


def named(figures: list[Figure]) -> dict[tuple[str, str], Figure]:
    return {(figure.source, figure.measure): figure for figure in figures}


def test_halubench_is_told_per_source_pooled_and_as_a_mean() -> None:
    first, second = random_rows("halubench/a", 40, 0), random_rows("halubench/b", 20, 1)
    lost = judged("halubench/b", False, None, "lost")
    found = named(measure([*second, lost, *first], resamples=100))

    def by_library(rows: list[Prediction]) -> tuple[float, float]:
        units = scored_units(rows)["hallucination"]
        flagged = units.probs > 0.5
        accuracy = accuracy_score(units.positive, flagged)
        return float(accuracy), float(roc_auc_score(units.positive, units.probs))

    expected = {
        "halubench/a": by_library(first),
        "halubench/b": by_library(second),
        "halubench/pooled": by_library(first + second),
    }
    a, b = expected["halubench/a"], expected["halubench/b"]
    expected["halubench/mean"] = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
    for source, (accuracy, area) in expected.items():
        right, ranked = (found[source, f"hallucination_{name}"] for name in ("accuracy", "auroc"))
        assert right.value == pytest.approx(accuracy)
        assert ranked.value == pytest.approx(area)
        assert right.low is not None
        assert right.high is not None
        assert right.low <= accuracy <= right.high
        assert right.failed == int(source != "halubench/a")


def test_accuracy_needs_no_second_class() -> None:
    rows = [judged("logs", True, value, str(value)) for value in (0.2, 0.6, 0.8, 0.9)]
    found = named(measure(rows, resamples=50))
    assert found["logs", "hallucination_accuracy"].value == 0.75
    assert found["logs", "hallucination_auroc"].value is None


def test_units_are_probabilities_of_the_positive_class_beside_the_truth() -> None:
    rows = [judged("logs", False, 0.25, "a"), judged("logs", True, None, "b")]
    units = scored_units(rows)
    assert units["hallucination"].probs.tolist() == [0.75]
    assert units["hallucination"].positive.tolist() == [True]
    assert (units["hallucination"].rows.tolist(), units["hallucination"].failed) == ([0], 1)
    assert len(units["support"].probs) == 0
