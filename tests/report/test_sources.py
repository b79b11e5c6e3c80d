"""Sources of response sentences: their evidence, else the context sentences that share words."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.report.rows import unmarked_verdict
from trivet.records import EvidenceSpan
from trivet.report.shown_sources import find_sources

CONTEXTS = [
    ["The mill stands by the river.", "It was built of stone in 1817."],
    ["The bridge is made of iron.", "The ferry left the river in 1871."],
]


def test_the_sentence_with_the_rarest_shared_words_comes_first() -> None:
    (sources,) = find_sources(unmarked_verdict(["The bridge is made of iron."], CONTEXTS))
    assert [source[:2] for source in sources] == [(1, 0)]
    assert sources[0].share == 1.0


def test_the_sources_are_the_evidence_in_its_order_whatever_the_words() -> None:
    verdict = unmarked_verdict(["The bridge is made of iron.", "The ferry left."], CONTEXTS)
    first, second = verdict.sentences
    # CONTEXTS[1][0] has all words of the first sentence, but is not its evidence.
    evidence = (EvidenceSpan(0, 0, 30, 0.9), EvidenceSpan(1, 0, 33, 0.4))
    verdict = replace(
        verdict, sentences=(replace(first, evidence=evidence), replace(second, evidence=()))
    )
    sources = find_sources(verdict)
    assert sources[0] == ((0, 1, 0.9), (1, 1, 0.4))
    assert [source[:2] for source in sources[1]] == [(1, 1)]  # without evidence, by words


def test_evidence_that_is_no_context_sentence_of_the_verdict_is_left_out() -> None:
    verdict = unmarked_verdict(["The bridge is made of iron."], CONTEXTS)
    evidence = (EvidenceSpan(0, 3, 30, 0.9), EvidenceSpan(7, 0, 30, 0.8))
    (sentence,) = verdict.sentences
    known = (*evidence, EvidenceSpan(1, 0, 33, 0.7))
    for spans, places in ((evidence, [(1, 0)]), (known, [(1, 1)])):
        changed = replace(verdict, sentences=(replace(sentence, evidence=spans),))
        assert [source[:2] for source in find_sources(changed)[0]] == places


@given(st.lists(st.text(max_size=12), max_size=3), st.lists(st.lists(st.text(max_size=12))))
def test_every_source_exists_and_shares_some_words(
    sentences: list[str], contexts: list[list[str]]
) -> None:
    by_sentence = find_sources(unmarked_verdict(sentences, contexts))
    assert len(by_sentence) == len(sentences)
    for sources in by_sentence:
        assert len({source[:2] for source in sources}) == len(sources) <= 2
        for source in sources:
            assert contexts[source.context][source.sentence]
            assert 0 < source.share <= 1 + 1e-9
