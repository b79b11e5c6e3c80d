"""What the dev rows choose: the reduction with the better AUROC."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training.conftest import ConfigOf
from trivet.bundle.bundle import read_bundle
from trivet.measures.thresholds import DevScores
from trivet.records import LabelledExample, Labels, RagExample
from trivet.train import train
from trivet.training.dev_choices import choose_reduction


def scores(adherent: bool | None, sentence: float, token: float, source: str = "a") -> DevScores:
    labels = Labels(adherent=adherent)
    return DevScores(
        example=LabelledExample(RagExample("?", ("c",), "r s"), labels, source, "group"),
        sentence_support=np.array([sentence, 1.0]),
        token_offsets=np.array([[0, 1], [2, 3]]),
        token_support=np.array([token, 1.0]),
        token_sentence=np.array([0, 0]),
        faithfulness=sentence,
    )


SENTENCE_BETTER = [scores(True, 0.9, 0.1), scores(False, 0.2, 0.3)]
TOKEN_BETTER = [scores(True, 0.2, 0.3, "b"), scores(False, 0.9, 0.1, "b")]
TWO_BETTER = [
    replace(scores(adherent, 0, 0), sentence_support=np.array(two), token_sentence=np.array([0, 1]))
    for adherent, two in [(True, [0.3, 0.9]), (False, [0.4, 0.4])]
]


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        (SENTENCE_BETTER, "weakest_sentence"),
        (TOKEN_BETTER, "weakest_token"),
        (TWO_BETTER, "two_weakest_sentences"),
        # The mean over sources, not over rows; equal means keep the sentence.
        (SENTENCE_BETTER * 3 + TOKEN_BETTER, "weakest_sentence"),
        ([*SENTENCE_BETTER[:1], scores(None, 0.1, 0.9)], "weakest_sentence"),
        ([], "weakest_sentence"),
    ],
)
def test_the_reduction_with_the_higher_mean_auroc_is_chosen(
    rows: list[DevScores], chosen: str
) -> None:
    assert choose_reduction(rows) == chosen


def test_the_choice_is_in_the_bundle(
    tmp_path: Path, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[DevScores] = []

    def choose(rows: list[DevScores]) -> str:
        seen.extend(rows)
        return "weakest_token"

    monkeypatch.setattr("trivet.train.choose_reduction", choose)
    settings = ("faithfulness=best_on_dev", "optim.epochs=1")
    info = read_bundle(train(config_of(tmp_path, *settings))).info
    assert info.faithfulness == "weakest_token" and len(seen) == 4
