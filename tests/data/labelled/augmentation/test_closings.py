"""Closings of responses: what states nothing needs no support, what claims something does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trivet.data.labelled.augmentation.augment import Augmentation, augment_batch
from trivet.data.labelled.augmentation.closings import append_claim, append_remark, remarks
from trivet.data.sentences import split_sentences
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

SAID = "It was built in 1790."
NAMED = Evidence(Span(0, len(SAID)), (ContextSpan(0, 0, 20),))


def row(group: str = "mill", response: str = SAID, **labels: object) -> LabelledExample:
    texts = RagExample(
        "When was it built?",
        (f"The {group} was built in 1790 by Anna Berg. The roof is new.",),
        response,
        response_sentences=(Span(0, len(response)),) if response else None,
    )
    known = Labels(unsupported=(), adherent=True, utilized=(), evidence=(NAMED,))
    labelled = replace(known, **labels)  # type: ignore[arg-type]
    return LabelledExample(texts, labelled, source="made-up", group=group)


def test_remarks_are_single_sentences_in_a_file_without_repetition() -> None:
    assert len(remarks()) == len(set(remarks())) == 215
    assert all(len(split_sentences(text)) == 1 for text in remarks())
    assert all(text.replace("{topic}", "").count("{") == 0 for text in remarks())
    assert sum(text.endswith("?") for text in remarks()) > 60


def test_a_remark_needs_no_support() -> None:
    for seed in range(30):
        new = append_remark(row(), np.random.default_rng(seed))
        response, labels = new.example.response, new.labels
        added = Span(len(SAID) + 1, len(response))
        assert response.startswith(f"{SAID} ") and "{" not in response
        assert new.example.response_sentences == (Span(0, len(SAID)), added)
        assert labels == replace(row().labels, evidence=(NAMED, Evidence(added, ())))


def test_a_topic_is_a_name_of_the_contexts() -> None:
    said = {append_remark(row(), np.random.default_rng(n)).example.response for n in range(60)}
    assert any("Anna Berg" in text for text in said)


@pytest.mark.parametrize("adherent", [True, False])
def test_a_remark_adds_no_label_where_the_verdict_alone_is_known(adherent: bool) -> None:
    known = row(unsupported=None, evidence=None, utilized=None, adherent=adherent)
    assert append_remark(known, np.random.default_rng(0)).labels == known.labels


def test_a_claim_is_unsupported() -> None:
    seen = set()
    for seed in range(40):
        new = append_claim(row(), "The lake is deep.", np.random.default_rng(seed))
        said = new.example.response[len(SAID) + 1 :]
        added = Span(len(SAID) + 1, len(new.example.response))
        assert "he lake is deep" in said
        assert new.labels.unsupported == (added,) and new.labels.adherent is False
        assert new.labels.evidence == (NAMED,)
        seen.add(said)
    assert {"Did you know that The lake is deep?", "The lake is deep."} < seen


def test_the_first_word_of_a_claim_becomes_small_where_it_is_no_name() -> None:
    for claim, small in (("The end of the lake is deep.", "the end"), ("Anna is here.", "Anna is")):
        said = {
            append_claim(row(), claim, np.random.default_rng(n)).example.response for n in range(40)
        }
        plain = f"{SAID} {claim}"
        assert plain in said and all(small in text for text in said - {plain})


@pytest.mark.parametrize(("adherent", "unsupported"), [(True, 1), (False, None), (None, None)])
def test_a_claim_after_a_response_with_a_verdict_alone(
    adherent: bool | None, unsupported: int | None
) -> None:
    known = row(unsupported=None, evidence=None, adherent=adherent)
    labels = append_claim(known, "The lake is deep.", np.random.default_rng(0)).labels
    assert labels.adherent is False
    assert (labels.unsupported and len(labels.unsupported)) == unsupported


def test_an_empty_response_gets_no_closing() -> None:
    empty = row(response=" ", evidence=None)
    assert append_remark(empty, np.random.default_rng(0)) is empty
    assert append_claim(empty, "The lake is deep.", np.random.default_rng(0)) is empty


def test_a_batch_gets_both_and_claims_are_foreign() -> None:
    names = ("mill", "barn", "tower", "church", "bridge", "well", "gate")
    rows = [row(name, f"The {name} is old.", evidence=None) for name in names]
    altered = augment_batch(rows, range(7), Augmentation(append_closing=1), 3, 0, rows)
    claims = [one for one in altered if one.labels.unsupported]
    assert 0 < len(claims) < len(altered)
    for one in claims:
        said = one.example.response.removeprefix(f"The {one.group} is old.")
        assert one.group not in said and ("built" in said or "roof" in said)
