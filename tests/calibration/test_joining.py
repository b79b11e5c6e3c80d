"""Derivatives of joined probabilities, against differences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from trivet.calibration.joining import HeadLogits, Joined
from trivet.model.architecture import Reduction

FloatArray = npt.NDArray[np.float64]


def drawn(seed: int, evidence: bool, several: bool) -> tuple[HeadLogits, FloatArray]:
    """Draw four responses of which one has no sentence, with copies in random windows."""
    random = np.random.default_rng(seed)
    row = np.array([0, 0, 1, 1, 1, 3])
    sentence = np.repeat(np.arange(len(row)), random.integers(1, 4, size=len(row)))
    copies = random.integers(1, 4, size=len(sentence)) if several else np.ones(len(sentence), int)
    token = np.repeat(np.arange(len(sentence)), copies)
    first = np.append(True, token[1:] != token[:-1])
    head = HeadLogits(
        logits=np.zeros(len(token)),
        token=token if several else None,
        sentence=sentence,
        row=row,
        truth=np.zeros(len(row)),
        verdict=np.zeros(4),
        weight=np.ones(4),
        is_evidence=~first & (random.random(len(token)) < 0.5) if evidence else None,
        has_claim=np.array([True, True, False, True, True, True]) if several else None,
    )
    return head, random.normal(size=len(token))


@pytest.mark.parametrize(
    "faithfulness", ["weakest_token", "weakest_sentence", "two_weakest_sentences"]
)
@pytest.mark.parametrize(("evidence", "several"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("seed", range(5))
def test_slopes_are_those_of_small_differences(
    faithfulness: Reduction, evidence: bool, several: bool, seed: int
) -> None:
    head, margins = drawn(seed, evidence, several)
    random = np.random.default_rng(seed + 100)
    of_sentences, of_responses = random.normal(size=6), random.normal(size=4)

    def loss(given: FloatArray) -> float:
        found = Joined(head, given, faithfulness).found
        return float(of_sentences @ found.sentences + of_responses @ found.faithfulness)

    slopes = Joined(head, margins, faithfulness).slopes(of_sentences, of_responses)
    steps = 1e-6 * np.eye(len(margins))
    differences = [(loss(margins + step) - loss(margins - step)) / 2e-6 for step in steps]
    assert slopes == pytest.approx(differences, abs=1e-7)
    assert np.abs(slopes).max() > 0.01
