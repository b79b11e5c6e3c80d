"""A verdict written out by hand, with the place of every number."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.bundle.info import Thresholds
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import WindowSettings, lay_out
from trivet.errors import BackendError, WindowError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.postprocessing import (
    Decision,
    to_evaluation,
    to_result,
    to_token_verdicts,
)
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.model.aggregate import Outputs, response_support
from trivet.model.architecture import Reduction
from trivet.records import FailedEvaluation, RagExample

# Every word and every full stop is one token of the tiny tokenizer.
EXAMPLE = RagExample(
    question="what",
    contexts=("the mill is old. water.", " ", "red boat"),
    response="the mill is new. the boat is red.",
    id="mill",
)
DECISION = Decision(Thresholds(sentence=0.6, span=0.5))
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


@pytest.fixture(scope="module")
def preprocessed(tokenizer: SegmentTokenizer) -> PreprocessedExample:
    (tokens,) = tokenize_examples([EXAMPLE], tokenizer)
    layout = lay_out(tokens, WindowSettings(size=48), tokenizer.special)
    return PreprocessedExample(EXAMPLE, tokens, layout)


def test_every_number_stands_in_its_place(preprocessed: PreprocessedExample) -> None:
    assert (len(preprocessed.tokens.response), len(preprocessed.tokens.context)) == (10, 9)
    verdict = to_evaluation(preprocessed, OUTPUTS, DECISION)
    assert verdict.id == "mill"
    scores = verdict.faithfulness, verdict.relevance, verdict.utilization
    assert scores == pytest.approx((0.3, 0.5, 0.25))
    assert verdict.completeness == 1.0  # rounding past the range is cut off
    assert [(s.text, s.supported) for s in verdict.sentences] == [
        ("the mill is new.", True),
        ("the boat is red.", False),
    ]
    assert verdict.adherent is False
    assert (verdict.supported_share, verdict.threshold) == (0.5, 0.6)
    # "new" has a support of 0.1 in a supported sentence.
    assert [(span.text, span.start) for span in verdict.unsupported] == [("boat is", 21)]
    assert verdict.unsupported[0].probability == pytest.approx(0.7)
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


WORDS = st.sampled_from(
    ["the mill", "a", "1.", "-", "?!", "stra\u00dfe", "\u65e5\u672c\u8a9e", "x-y", "\n"]
)


@given(
    st.lists(WORDS, min_size=1, max_size=12),
    st.sampled_from([". ", " ", "! "]),
    st.sampled_from(get_args(Reduction)),
    *(st.floats(0, 1) for _ in range(2)),
    st.data(),
)
def test_a_response_has_one_verdict(
    tokenizer: SegmentTokenizer,
    words: list[str],
    between: str,
    reduction: Reduction,
    sentence: float,
    span: float,
    data: st.DataObject,
) -> None:
    example = RagExample("what", ("the mill",), between.join(words))
    (tokens,) = tokenize_examples([example], tokenizer)
    layout = lay_out(tokens, WindowSettings(size=256), tokenizer.special)
    preprocessed = PreprocessedExample(example, tokens, layout)
    count, sentences = len(tokens.response), len(tokens.response_sentence_spans)
    values = data.draw(st.lists(st.floats(0, 1, width=32), min_size=count, max_size=count))
    # Any support of sentences, not only the mean of their tokens.
    means = data.draw(st.lists(st.floats(0, 1, width=32), min_size=sentences, max_size=sentences))
    outputs = OUTPUTS._replace(
        support_probs=np.array([values]).reshape(1, -1),
        sentence_support=np.array([means]).reshape(1, -1),
        relevance_probs=np.zeros((1, len(tokens.context))),
        utilization_probs=np.zeros((1, len(tokens.context))),
    )
    token, part = outputs.support_probs, outputs.sentence_support
    every_token, every_part = (np.ones_like(probs, dtype=np.bool_) for probs in (token, part))
    if count:
        whole = response_support(token, every_token, part, every_part, reduction)
        outputs = outputs._replace(faithfulness=whole)
    decision = Decision(Thresholds(sentence, span))
    verdict = to_evaluation(preprocessed, outputs, decision)
    if not count:
        assert (verdict.adherent, verdict.supported_share, verdict.unsupported) == (None, None, ())
        return
    judged = [s for s in verdict.sentences if s.supported is not None]
    unsupported = [s for s in judged if not s.supported]
    assert verdict.adherent is not bool(unsupported)
    least = min([s.support or 0.0 for s in judged], default=1.0)
    assert verdict.adherent is bool(least >= sentence)
    shares = 1 - len(unsupported) / len(judged) if judged else None
    assert verdict.supported_share == (None if shares is None else pytest.approx(shares))
    homes = [
        [s for s in unsupported if s.start <= mark.start < mark.end <= s.end]
        for mark in verdict.unsupported
    ]
    assert all(len(home) == 1 for home in homes)
    assert {id(s) for home in homes for s in home} == {id(s) for s in unsupported}
    assert all(
        example.response[mark.start : mark.end] == mark.text and 0 <= mark.probability <= 1
        for mark in verdict.unsupported
    )
    marks = [t.supported is False for t in to_token_verdicts(preprocessed, outputs, decision)]
    assert any(marks) is bool(unsupported)


def test_a_threshold_of_the_call_decides_and_is_recorded(embedded: Evaluator) -> None:
    texts = ("How tall is the mill?", ["The mill is 9 metres tall."], "The mill is 9 metres tall.")
    thresholds = embedded.bundle.info.thresholds
    assert thresholds is not None and embedded.evaluate(*texts).threshold == thresholds.sentence
    strict, lax = (embedded.evaluate(*texts, threshold=value) for value in (1.0, 0.0))
    assert (strict.adherent, lax.adherent) == (False, True)
    assert (strict.threshold, lax.threshold) == (1.0, 0.0)
    assert strict.unsupported and not lax.unsupported
    with pytest.raises(ValueError, match=r"threshold must be in \[0, 1\], got 1\.5"):
        embedded.evaluate(*texts, threshold=1.5)


@pytest.mark.parametrize("field", OUTPUTS.present())
def test_no_field_lets_nan_through(preprocessed: PreprocessedExample, field: str) -> None:
    broken = OUTPUTS._replace(**{field: np.full_like(getattr(OUTPUTS, field), np.nan)})
    with pytest.raises(BackendError, match=f"{field} = nan"):
        to_evaluation(preprocessed, broken, DECISION)


def test_an_example_without_room_in_a_window_fails_with_its_code() -> None:
    failed = FailedEvaluation("seven", "window", "no room")
    assert to_result(WindowError("no room"), "seven") == failed
