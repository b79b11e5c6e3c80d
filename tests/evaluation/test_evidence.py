"""Sources by the evidence head: windows and calls change nothing, and the verdict has the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.data.examples import make_tokenized
from tests.evaluation.test_packing import layouts_of, run
from tests.report.rows import verdict_on
from trivet.bundle.info import EvidenceInfo
from trivet.data.collating import collate
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import Windows
from trivet.errors import BackendError
from trivet.evaluation.packing import add_pairs, no_pairs, take_windows
from trivet.evaluation.postprocessing import MAX_SOURCES, with_sources
from trivet.heads import EVIDENCE_STATES
from trivet.model.aggregate import Outputs, evidence_logits
from trivet.records import RagExample, SentenceVerdict

INFO = EvidenceInfo(scale=2.0, shift=-1.0, lexical_overlap=0.5, threshold=0.5)


class WithStates:
    """Answers as the formula does, with states that depend on all that a window shows."""

    name, broken = "states", False

    def __init__(self, formula: Any) -> None:
        self._formula = formula

    def run(self, windows: Windows) -> Outputs:
        ids = windows.input_ids * windows.attention_mask
        key = ids.astype(np.float64).sum(axis=1)[:, None, None] / 1000
        factors = np.arange(1, EVIDENCE_STATES + 1) / 7
        states = 0.1 * np.sin(ids[..., None] * factors + key)
        states[windows.attention_mask == 0] = 1e6  # padding must not count
        if self.broken:
            states[0, 0, 0] = np.nan
        answer: Outputs = self._formula.run(windows)
        return answer._replace(evidence_states=states.astype(np.float32))


@pytest.mark.parametrize("evidence_sentences", [0, 1])
@pytest.mark.parametrize("positions", [1, 100, 100_000])
def test_calls_and_the_order_of_windows_change_no_pair(
    rag_examples: Sequence[RagExample],
    tokenizer: SegmentTokenizer,
    formula: Any,
    positions: int,
    evidence_sentences: int,
) -> None:
    layouts = layouts_of(rag_examples, tokenizer, evidence_sentences)
    backend = WithStates(formula)
    answers = run(layouts, backend, positions)
    for layout, answer in zip(layouts, answers, strict=True):
        alone = no_pairs(layout)
        rows = np.random.default_rng(0).permutation(len(layout.rows)).tolist()
        for row in rows:
            part, _ = take_windows(layout, [row])
            states = backend.run(collate([part], 0)).evidence_states
            add_pairs(alone, part, states, layout.response_sentence)
        if layout.sentences:
            assert np.isfinite(alone).all()
            assert answer.evidence is not None
            np.testing.assert_allclose(answer.evidence, alone, atol=1e-5)


def test_states_that_are_not_finite_fail_the_example(
    rag_examples: Sequence[RagExample], tokenizer: SegmentTokenizer, formula: Any
) -> None:
    backend = WithStates(formula)
    backend.broken = True
    (answer,) = run(layouts_of(rag_examples[:1], tokenizer), backend, 100_000)
    with pytest.raises(BackendError, match="evidence_states that are not finite"):
        answer.join("weakest_sentence")


def test_a_pair_is_the_scaled_product_of_the_means_of_both_halves() -> None:
    half = EVIDENCE_STATES // 2
    states = np.random.default_rng(1).normal(size=(1, 4, EVIDENCE_STATES))
    pools = np.array([[[0.5, 0.5, 0, 0]]]), np.array([[[0, 0, 0, 1.0]]])
    mean = states[0, :2, :half].mean(axis=0)
    expected = half * mean @ states[0, 3, half:]
    np.testing.assert_allclose(evidence_logits(states, *pools), [[[expected]]])


def test_the_verdict_has_the_best_sources_from_the_threshold_on() -> None:
    count = MAX_SOURCES + 2
    tokens = make_tokenized([7], [[[10 + n] for n in range(count)]], [[99], [98], [97], [96]])
    sentences = tuple(SentenceVerdict(n, n + 1, "abcd"[n], 0.9, n != 0) for n in range(4))
    verdict = replace(verdict_on((), "abcd", 0.9, None), sentences=sentences)
    below = [0.4, 0.45, *[0.4] * (count - 2)]
    logits = np.array([below, np.linspace(0.6, 1.2, count), below, [-np.inf] * count], np.float32)
    sourced = with_sources(verdict, tokens, logits, INFO)
    unsupported, best, only, no_window = (sentence.evidence for sentence in sourced.sentences)
    assert unsupported == ()
    assert best is not None and len(best) == MAX_SOURCES
    scores = [source.score for source in best]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(1 / (1 + np.exp(-1.4)))
    assert only is not None  # a supported sentence has its best source, even below the threshold
    spans = tokens.context_sentence_spans
    assert [(s.context, s.start) for s in only] == [(spans[1].context, spans[1].start)]
    assert only[0].score == pytest.approx(1 / (1 + np.exp(0.1)))
    assert no_window == ()
    assert with_sources(verdict, tokens, logits, None) == verdict
    assert with_sources(verdict, tokens, None, INFO) == verdict


def test_words_that_both_share_raise_the_score() -> None:
    tokens = make_tokenized([7], [[[10], [11]]], [[11]])
    sentences = (SentenceVerdict(0, 1, "a", 0.9, True),)
    verdict = replace(verdict_on((), "a", 0.9, None), sentences=sentences)
    info = EvidenceInfo(scale=1.0, shift=0.0, lexical_overlap=2.0, threshold=0.0)
    logits = np.zeros((1, 2), np.float32)
    evidence = with_sources(verdict, tokens, logits, info).sentences[0].evidence
    assert evidence is not None
    assert [source.score for source in evidence] == pytest.approx([1 / (1 + np.exp(-2)), 0.5])
