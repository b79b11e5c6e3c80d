"""Two thresholds: what passes, what is flagged and what is left, on supports made by hand."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.measures.test_label_check import prediction
from trivet.measures.cascade import CascadeStep, cascade
from trivet.measures.label_check import judge_answers


def steps(answers: list[tuple[float, bool]], *precisions: float) -> list[CascadeStep]:
    """Return the steps for supports and labels, each answer a document of its own."""
    rows = [prediction(support, right, str(n)) for n, (support, right) in enumerate(answers)]
    return cascade(judge_answers(rows), precisions or (0.9, 0.95, 0.99))


def test_each_threshold_decides_as_many_as_the_precision_allows() -> None:
    right = [(0.8 + n / 1000, True) for n in range(100)]
    wrong = [(0.1 + n / 1000, False) for n in range(30)]
    unsure = [(0.5, True), (0.51, False), (0.52, True), (0.53, False), (0.54, False)]
    ninety, ninety_five, ninety_nine = steps(right + wrong + unsure)
    # Both could decide the unsure ones at 90 %: one threshold, of the fewest errors.
    assert ninety.left.count == 0
    assert ninety.passed.threshold == ninety.flagged.threshold
    assert ninety.passed.wrong + ninety.flagged.count - ninety.flagged.wrong == 2
    # After 31 flagged ones with 1 error, one more would make 2 of 32, above 5 %.
    assert (ninety_five.passed.count, ninety_five.passed.wrong) == (105, 3)
    assert (ninety_five.flagged.count, ninety_five.left.count) == (30, 0)
    # 30 answers cannot show a precision of 99 %.
    assert (ninety_nine.passed.count, ninety_nine.passed.threshold) == (100, 0.8)
    assert ninety_nine.flagged.threshold is None
    assert (ninety_nine.left.count, ninety_nine.left.wrong) == (35, 33)


def test_nine_answers_show_ninety_per_cent_and_eight_do_not() -> None:
    for count, decided in ((8, 0), (9, 9)):
        (step,) = steps([(0.9 + n / 1000, True) for n in range(count)] + [(0.1, False)], 0.9)
        assert step.passed.count == decided


def test_intervals_hold_the_share_and_need_documents() -> None:
    answers = [(0.9, True)] * 60 + [(0.1, False)] * 60 + [(0.5, n % 2 == 0) for n in range(30)]
    (step,) = steps(answers, 0.9)
    for side in (step.passed, step.flagged, step.left):
        assert side.interval is not None
        assert side.interval[0] <= side.share <= side.interval[1]
    one_document = [prediction(0.9, n > 0, "same") for n in range(20)]
    assert cascade(judge_answers(one_document), [0.9])[0].passed.interval is None


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.5001, 0.9, 1.0]), st.booleans()), min_size=1
    ),
    st.sampled_from([0.5, 0.7, 0.9]),
)
def test_no_answer_is_both_and_the_thresholds_say_what_is_decided(
    answers: list[tuple[float, bool]], precision: float
) -> None:
    (step,) = steps(answers, precision)
    support = [value for value, _ in answers]
    passes, flags = step.passed.threshold, step.flagged.threshold
    passed = [] if passes is None else [value for value in support if value >= passes]
    flagged = [] if flags is None else [value for value in support if value < flags]
    assert (step.passed.count, step.flagged.count) == (len(passed), len(flagged))
    assert step.left.count == len(answers) - len(passed) - len(flagged) >= 0
    wrong = sum(not right for value, right in answers if passes is not None and value >= passes)
    assert step.passed.wrong == wrong <= (1 - precision) * len(passed) + 1e-9
    assert step.passed.wrong + step.flagged.wrong + step.left.wrong == sum(
        not right for _, right in answers
    )
