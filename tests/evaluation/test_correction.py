"""Corrections without an LLM. The backend finds some words unsupported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.judges import FormulaBackend, outputs_of
from trivet.data.windows import Windows
from trivet.errors import BackendError
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs

STRICT = 0.8  # the mean support of a sentence with one word that is not supported is below it
CONTEXTS = ["The mill was built in 1817. It is made of stone.", "The ferry is red."]


@pytest.fixture
def strict(judge: Evaluator, formula: FormulaBackend, monkeypatch: pytest.MonkeyPatch) -> Evaluator:
    """Return an evaluator that finds the word wood unsupported, and all others supported."""
    (wood,) = judge.preprocessor.tokenizer.encode(["wood"])[0].ids

    def run(windows: Windows) -> Outputs:
        support = np.where(windows.input_ids == wood, 0.0, 0.9)
        return outputs_of(windows, support, support, support, "weakest_sentence")

    monkeypatch.setattr(formula, "run", run)
    return judge


@pytest.mark.parametrize(
    ("response", "text", "kept"),
    [
        ("It is old. It is wood. It is red.", "It is old. It is red.", 20 / 31),
        ("It is wood. It is old.", "It is old.", 10 / 21),
        ("It is old. It is wood.", "It is old.", 10 / 21),
        ("It is old.\n\nIt is wood. It is red.", "It is old.\n\nIt is red.", 20 / 31),
        ("- It is old.\n- It is wood.\n- It is red.\n", "- It is old.\n- It is red.\n", 24 / 37),
        ("It is old. It is red.", "It is old. It is red.", 1.0),
        ("It is wood.", "", 0.0),
        ("", "", 1.0),
    ],
)
def test_unsupported_sentences_are_dropped(
    strict: Evaluator, response: str, text: str, kept: float
) -> None:
    corrected = strict.correct("", CONTEXTS, response, threshold=STRICT)
    assert corrected.text == text
    assert corrected.kept == pytest.approx(kept)
    assert corrected.verdict == strict.evaluate("", CONTEXTS, response, threshold=STRICT)
    assert all("wood" in response[s.start : s.end] for s in corrected.changed)
    assert len(corrected.changed) == response.count("wood")
    again = strict.evaluate("", CONTEXTS, corrected.text, threshold=STRICT)
    assert again.adherent in (True, None)


def test_a_quote_puts_the_nearest_source_beside_the_sentence(strict: Evaluator) -> None:
    response = "It was built in 1817. It is made of wood.\nIt is old."
    corrected = strict.correct("", CONTEXTS, response, mode="quote", threshold=STRICT)
    assert corrected.text == (
        "It was built in 1817. It is made of wood. [source: It is made of stone.]\nIt is old."
    )
    assert corrected.kept == 1.0


def test_strict_corrects_what_is_to_check_too(strict: Evaluator) -> None:
    response = "It was built in 1999. It is old."
    assert strict.correct("", CONTEXTS, response, threshold=STRICT).text == response
    asked: Any = {"threshold": STRICT, "strict": True}
    assert strict.correct("", CONTEXTS, response, **asked).text == "It is old."
    tokens = strict.evaluate_tokens("", CONTEXTS, response, **asked)
    assert "".join(token.text for token in tokens if not token.supported) == "1999"
    assert not any(t.supported for t in strict.evaluate_tokens("", CONTEXTS, "Old.", threshold=1))


@pytest.mark.parametrize("response", ["It is old.", ""])
def test_without_a_support_head_nothing_is_corrected(
    judge_without_support: Evaluator, response: str
) -> None:
    with pytest.raises(BackendError, match="no support head, so sentences have no verdict"):
        judge_without_support.correct("", CONTEXTS, response)
