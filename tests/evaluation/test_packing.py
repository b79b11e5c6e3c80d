"""Packing of windows into calls, which must not change results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.backends.backend import Backend
from trivet.data.collating import collate
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import Layout, WindowSettings, lay_out
from trivet.errors import BackendError
from trivet.evaluation.packing import BackendCall, BatchLimits, WindowAccumulator, take_windows
from trivet.evaluation.scheduler import Scheduler
from trivet.evaluation.window_queue import Job
from trivet.model.aggregate import Outputs, join_evidence_probs
from trivet.model.architecture import Reduction
from trivet.records import RagExample


def layouts_of(
    examples: Sequence[RagExample], tokenizer: SegmentTokenizer, evidence_sentences: int = 0
) -> list[Layout]:
    tokenized = tokenize_examples(examples, tokenizer)
    cut = WindowSettings(size=48, evidence_sentences=evidence_sentences)
    return [lay_out(tokens, cut, tokenizer.special) for tokens in tokenized]


def run(layouts: Sequence[Layout], backend: Backend, positions: int) -> list[WindowAccumulator]:
    accumulators = [WindowAccumulator(layout) for layout in layouts]
    Scheduler(backend, 0, BatchLimits(positions)).submit(Job(accumulators)).wait()
    return accumulators


@pytest.mark.parametrize("faithfulness", get_args(Reduction))
@pytest.mark.parametrize("positions", [1, 100, 300, 100_000])
def test_packing_changes_no_number(
    rag_examples: tuple[RagExample, ...],
    tokenizer: SegmentTokenizer,
    formula: Any,
    faithfulness: Reduction,
    positions: int,
) -> None:
    """Compare with the backend's answer to one example in one call."""
    layouts = layouts_of(rag_examples, tokenizer)
    assert max(len(layout.rows) for layout in layouts) > 10
    formula.faithfulness = faithfulness
    for layout, answers in zip(layouts, run(layouts, formula, positions), strict=True):
        joined, alone = answers.join(faithfulness), formula.run(collate([layout], 0))
        sizes = {
            "support_probs": len(layout.response_sentence),
            "relevance_probs": len(layout.context_row),
            "utilization_probs": len(layout.context_row),
        }
        for name, expected in alone.present().items():
            if name in sizes:
                expected = expected[:, : sizes[name]]
            np.testing.assert_allclose(getattr(joined, name), expected, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("positions", [1, 100, 300, 100_000])
def test_evidence_windows_are_joined_with_the_maximum_of_the_others(
    rag_examples: tuple[RagExample, ...], tokenizer: SegmentTokenizer, formula: Any, positions: int
) -> None:
    layouts = layouts_of(rag_examples, tokenizer, evidence_sentences=1)
    assert sum(bool(layout.row_is_evidence.any()) for layout in layouts) > 1
    answers = run(layouts, formula, positions)
    plain = run(layouts_of(rag_examples, tokenizer), formula, positions)
    for layout, *both in zip(layouts, answers, plain, strict=True):
        ours, theirs = (accumulator.join("weakest_token") for accumulator in both)
        for name in ("relevance_probs", "utilization_probs", "relevance", "completeness"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=2e-6)
        support = theirs.support_probs
        rows = np.flatnonzero(layout.row_is_evidence).tolist()
        if rows:
            alone = formula.run(collate([take_windows(layout, rows)[0]], 0)).support_probs
            gathered = layout.response_row[None, :, -1] >= 0
            alone, windows = alone[:, : support.shape[1]], layout.ordinary_windows()[None]
            support = join_evidence_probs(support, alone, gathered, windows)
        np.testing.assert_allclose(ours.support_probs, support, atol=2e-6)
        if support.size:
            np.testing.assert_allclose(ours.faithfulness, support.min(), atol=2e-6)


@pytest.mark.parametrize("faithfulness", get_args(Reduction))
def test_a_long_response_is_joined_in_blocks_as_in_one_piece(
    tokenizer: SegmentTokenizer, formula: Any, faithfulness: Reduction
) -> None:
    formula.faithfulness = faithfulness
    response = " ".join(f"The {n % 7} boat was red." for n in range(400))
    layouts = layouts_of([RagExample("Who?", ("The boat was old.",), response)], tokenizer)
    alone = formula.run(collate(layouts, 0))
    (answers,) = run(layouts, formula, 1024)
    joined = answers.join(faithfulness)
    assert joined.sentence_support.shape == (1, 400)
    np.testing.assert_allclose(joined.sentence_support, alone.sentence_support, atol=2e-6)
    np.testing.assert_allclose(joined.faithfulness, alone.faithfulness, atol=2e-6)


@pytest.mark.parametrize("fault", ["raises_on", "nan_on"])
@pytest.mark.parametrize("shared", [False, True])
def test_an_error_is_that_of_its_own_example(
    tokenizer: SegmentTokenizer, formula: Any, fault: str, shared: bool
) -> None:
    """NaN even in a shared call; an error of a whole call is that of all its examples."""
    examples = [
        RagExample("Who?", ("The baker had bread.",), "The baker."),
        RagExample("Who?", ("The lighthouse had a lamp.",), "The keeper."),
    ]
    layouts = layouts_of(examples, tokenizer)
    setattr(formula, fault, int(tokenizer.encode(["lighthouse"])[0].ids[0]))
    fine, broken = run(layouts, formula, 1000 if shared else 1)
    message = "support_probs = nan" if fault == "nan_on" else "told to fail"
    with pytest.raises(BackendError, match=message):
        broken.join("weakest_token")
    if shared and fault == "raises_on":
        assert fine.error is broken.error
    else:
        fine.join("weakest_token")


def test_an_error_of_one_part_is_that_of_the_example(
    tokenizer: SegmentTokenizer, formula: Any
) -> None:
    (layout,) = layouts_of(
        [RagExample("Who?", tuple(f"Boat {n} was old." for n in range(9)), "Red.")], tokenizer
    )
    assert len(layout.rows) > 1
    accumulator = WindowAccumulator(layout)
    for row in range(len(layout.rows)):
        call = BackendCall([(accumulator, row)])
        call.run(formula, 0, at_once=1)
        if row == 0:
            assert isinstance(call.answer, Outputs)
            broken = call.answer.relevance_probs * np.nan
            call.answer = call.answer._replace(relevance_probs=broken)
        call.add()
    with pytest.raises(BackendError, match="relevance_probs = nan"):
        accumulator.join("weakest_token")


@given(
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.sampled_from([1, 32, 64]),
    st.none() | st.integers(1, 9),
)
def test_a_call_has_room_for_what_fits_padding_included(
    length: int, positions: int, step: int, max_windows: int | None
) -> None:
    limits = BatchLimits(positions, step, max_windows)
    padded, room = limits.padded(length), limits.windows(length)
    assert padded % step == 0
    assert length <= padded < length + step
    assert room == 1 or room * padded <= positions
    assert max_windows is None or room <= max_windows
    assert (room + 1) * padded > positions or room == max_windows
