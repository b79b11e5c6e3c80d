"""A verdict written out by hand, with the place of every number."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from trivet.bundle.schema import Thresholds
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import WindowSettings, lay_out
from trivet.evaluation.postprocessing import to_evaluation
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.model.aggregate import Outputs
from trivet.records import BackendError, RagExample

# Every word and every full stop is one token of the tiny tokenizer.
EXAMPLE = RagExample(
    question="what",
    contexts=("the mill is old. water.", " ", "red boat"),
    response="the mill is new. the boat is red.",
    id="mill",
)
THRESHOLDS = Thresholds(adherence=0.3, sentence=0.6, span=0.5)
OUTPUTS = Outputs(
    support_probs=np.array([[0.9, 0.9, 0.9, 0.1, 0.8, 0.7, 0.2, 0.4, 0.9, 0.9]]),
    relevance_probs=np.array([[0.1, 0.2, 0.3, 0.4, 0.5, 1.0, 0.0, 0.6, 0.8]]),
    utilization_probs=np.array([[0.0, 0.0, 0.0, 0.0, 0.5, 0.2, 0.4, 1.0, 0.0]]),
    sentence_support=np.array([[0.72, 0.59999]]),
    faithfulness=np.array([0.3]),
    relevance=np.array([0.5]),
    utilization=np.array([0.25]),
    completeness=np.array([1.0001]),
)


@pytest.fixture
def preprocessed(wordpiece_file: Path) -> PreprocessedExample:
    tokenizer = SegmentTokenizer.from_file(wordpiece_file)
    (tokens,) = tokenize_examples([EXAMPLE], tokenizer)
    layout = lay_out(tokens, WindowSettings(size=48), tokenizer.special)
    return PreprocessedExample(EXAMPLE, tokens, layout)


def test_every_number_stands_in_its_place(preprocessed: PreprocessedExample) -> None:
    assert (len(preprocessed.tokens.response), len(preprocessed.tokens.context)) == (10, 9)
    verdict = to_evaluation(preprocessed, OUTPUTS, THRESHOLDS)
    assert verdict.id == "mill"
    assert verdict.faithfulness == pytest.approx(0.3)
    assert verdict.relevance == pytest.approx(0.5)
    assert verdict.utilization == pytest.approx(0.25)
    assert verdict.completeness == 1.0  # rounding past the range is cut off
    assert [(s.text, s.supported) for s in verdict.sentences] == [
        ("the mill is new.", True),
        ("the boat is red.", False),
    ]
    assert verdict.supported_share == 0.5
    assert [(span.text, span.start) for span in verdict.unsupported] == [
        ("new", 12),
        ("boat is", 21),
    ]
    assert verdict.unsupported[0].probability == pytest.approx(0.9)
    # Second context: only white space. First: mean of the means of its two sentences.
    assert [len(context.sentences) for context in verdict.contexts] == [2, 0, 1]
    first, second, third = verdict.contexts
    assert [s.relevance for s in first.sentences] == pytest.approx([0.3, 0.5])
    assert first.relevance == pytest.approx(0.4)
    assert first.utilization == pytest.approx((0.1 + 0.3) / 2)
    assert (second.relevance, second.utilization) == (None, None)
    assert third.relevance == pytest.approx(0.7)
    assert third.sentences[0].text == "red boat"
    assert (verdict.windows, verdict.cut_question_tokens, verdict.response_chunks) == (1, 0, 1)


@pytest.mark.parametrize(("threshold", "adherent"), [(0.3, True), (0.300001, False)])
def test_faithfulness_at_the_threshold_is_adherent(
    preprocessed: PreprocessedExample, threshold: float, adherent: bool
) -> None:
    outputs = OUTPUTS._replace(faithfulness=np.array([np.float32(0.3)]))
    thresholds = dataclasses.replace(THRESHOLDS, adherence=threshold)
    assert to_evaluation(preprocessed, outputs, thresholds).adherent is adherent


@pytest.mark.parametrize("field", Outputs._fields)
def test_no_field_lets_nan_through(preprocessed: PreprocessedExample, field: str) -> None:
    broken = OUTPUTS._replace(**{field: np.full_like(getattr(OUTPUTS, field), np.nan)})
    with pytest.raises(BackendError, match=f"{field} = nan"):
        to_evaluation(preprocessed, broken, THRESHOLDS)
