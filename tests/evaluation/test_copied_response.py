"""A response that is copied from its passage: the embedded verdict sees a wrong value in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs
from trivet.records import RagExample

PASSAGE = (
    "The lighthouse of the northern harbour was rebuilt in 1874 after a storm had destroyed the "
    "wooden tower of 1811, and its keeper moved to the new house beside it."
)
# Where a window shows one context sentence alone, there is no evidence window and no doubt.
CONTEXTS = (PASSAGE, "The ferry is red and carries forty cars over the wide river.")


def supports(_: Any, outputs: Outputs, __: Any) -> tuple[float, float]:
    """Return the mean support of the tokens and the support of the only sentence."""
    return float(np.mean(outputs.support_probs[0])), float(outputs.sentence_support[0, 0])


def test_a_right_copy_keeps_its_support(embedded: Evaluator) -> None:
    copied = RagExample("", CONTEXTS, PASSAGE)
    (found,) = embedded.begin([copied]).outcomes(supports)
    tokens, sentence = found  # type: ignore[misc]
    assert sentence == pytest.approx(tokens, abs=1e-6)
    assert embedded.evaluate("", CONTEXTS, PASSAGE).adherent


def test_a_wrong_value_of_the_same_passage_is_doubted_and_flagged(embedded: Evaluator) -> None:
    wrong = PASSAGE.replace("1874", "1811")
    (found,) = embedded.begin([RagExample("", CONTEXTS, wrong)]).outcomes(supports)
    tokens, sentence = found  # type: ignore[misc]
    # Most of its tokens are right, so their mean alone would pass.
    threshold = embedded.bundle.info.thresholds
    assert threshold is not None and sentence < threshold.sentence < tokens
    verdict = embedded.evaluate("", CONTEXTS, wrong)
    assert not verdict.adherent
    assert verdict.unsupported


def test_a_copied_name_is_not_doubted(embedded: Evaluator) -> None:
    contexts = (
        "The lamp of the harbour is kept by Edda Lorenz, who lives in the house beside it.",
        "The ferry is red and carries forty cars over the wide river to Tuva Nissen's mill.",
    )
    verdict = embedded.evaluate("Whose is the mill?", contexts, "Tuva Nissen.")
    # Below .95, where a whole sentence would be doubted.
    assert verdict.adherent and verdict.sentences[0].support < 0.95
