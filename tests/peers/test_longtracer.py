"""LongTracer's rules, by hand, in its three columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trivet.errors import ConfigError
from trivet.peers.entailment import Relations
from trivet.peers.peer import PeerSetup
from trivet.peers.pipelines import Claim, Column, LongTracer, claims_of, make_peer, split
from trivet.records import RagExample

SUPPORTED = Claim("The mill was built of stone.", 0.9, 0.8, 0.1, nli=True)

UNREAD = {"text": "I know that it is red.", "entailment": 0.0, "nli": False}


class Vectors:
    """An encoder whose cosines are given: the claim is [1, 0], each source [c, sqrt(1 - c^2)]."""

    about = "given cosines"

    def __init__(self, cosines: dict[str, float]) -> None:
        self.cosines = cosines

    def read(self, texts: Sequence[str]) -> np.ndarray:
        angles = np.array([np.arccos(self.cosines.get(text, 1.0)) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)


class Fixed:
    """An NLI model with one answer; keeps what it was asked."""

    about = "one answer"

    def __init__(self, entailment: float, contradiction: float) -> None:
        self.answer, self.asked = (entailment, contradiction), list[tuple[str, str]]()

    def relate(self, pairs: Sequence[tuple[str, str]]) -> Relations:
        self.asked += pairs
        return Relations(*np.repeat(np.array(self.answer)[:, None], len(pairs), axis=1))


FAR, NEAR = "The ferry crosses the river.", "The mill was made of stone."
EXAMPLE = RagExample("", (FAR + " " + NEAR,), "The mill was built of stone.")


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Too short", []),
        ("Yes. It is 3.5 metres wide and tall.", ["It is 3.5 metres wide and tall."]),
        ("Dr. Mill built  the old\nbridge. It is red.", ["Dr. Mill built the old bridge."]),
        ("Ask i.e. the keeper of it! And who is he?", ["Ask i.e. the keeper of it!"]),
    ],
)
def test_claims_are_cut_as_the_package_cuts_them(text: str, claims: list[str]) -> None:
    assert claims_of(text) == claims


def test_source_sentences_may_be_shorter_than_claims() -> None:
    assert split("It is red. It is green.", 10) == ["It is green."]


@pytest.mark.parametrize(
    ("change", "supported", "hallucination"),
    [
        ({}, True, False),
        ({"similarity": 0.4, "entailment": 0.0}, True, False),
        ({"similarity": 0.39, "entailment": 0.5}, False, False),
        ({"similarity": 0.3, "entailment": 0.51}, True, False),
        ({"contradiction": 0.51}, False, True),
        ({"contradiction": 0.51, "text": "The documents do not contain it."}, False, False),
        (UNREAD | {"similarity": 0.19}, False, True),
        (UNREAD | {"similarity": 0.21}, False, False),
        (UNREAD | {"similarity": 0.1, "entailment": 0.29, "nli": True}, False, True),
        (UNREAD | {"similarity": 0.1, "entailment": 0.3, "nli": True}, False, False),
    ],
)
def test_support_and_hallucination_of_a_claim(
    change: dict[str, float | str | bool], supported: bool, hallucination: bool
) -> None:
    claim = replace(SUPPORTED, **change)  # type: ignore[arg-type]
    assert (claim.supported, claim.hallucination) == (supported, hallucination)


@pytest.mark.parametrize(("cosine", "asked"), [(0.25001, [(NEAR, EXAMPLE.response)]), (0.24, [])])
def test_the_nli_model_reads_the_best_source_sentence_above_the_gate(
    cosine: float, asked: list[tuple[str, str]]
) -> None:
    nli = Fixed(0.9, 0.05)
    LongTracer("longtracer", Vectors({FAR: 0.1, NEAR: cosine}), nli).score(EXAMPLE)  # type: ignore[arg-type]
    assert nli.asked == asked


@pytest.mark.parametrize(
    ("column", "trust"),
    [("longtracer", 0.6), ("longtracer-labels", 0.6), ("longtracer-documented", 0)],
)
def test_trust_is_similarity_as_shipped_and_the_supported_share_as_documented(
    column: Column, trust: float
) -> None:
    models = Vectors({FAR: 0.1, NEAR: 0.6}), Fixed(0.1, 0.8)
    peer = LongTracer(column, *models)  # type: ignore[arg-type]
    score = peer.score(EXAMPLE)
    assert ("signed mean" in peer.about) == (column != "longtracer-documented")
    assert score.faithfulness == pytest.approx(trust)
    assert score.hallucinated
    assert score.spans is not None
    assert EXAMPLE.response[score.spans[0].start : score.spans[0].end] == EXAMPLE.response


def test_a_claim_that_points_away_from_the_sources_lowers_the_trust() -> None:
    example = replace(EXAMPLE, contexts=(NEAR,), response="The mill is old. The ferry is red.")
    cosines = {"The mill is old.": 0.5, "The ferry is red.": -0.2, NEAR: 1.0}
    peer = LongTracer("longtracer", Vectors(cosines), None)  # type: ignore[arg-type]
    assert peer.score(example).faithfulness == pytest.approx((0.5 - 0.2) / 2)
    alone = peer.score(replace(example, response="The ferry is red."))
    assert alone.faithfulness == 0


def test_a_response_without_claims_is_trusted_and_one_without_sources_is_not() -> None:
    peer = LongTracer("longtracer", Vectors({}), None)  # type: ignore[arg-type]
    assert peer.score(replace(EXAMPLE, response="Yes.")).faithfulness == 1
    assert peer.score(replace(EXAMPLE, contexts=())).faithfulness == 0


def test_the_columns_read_the_classes_by_position_or_by_name(
    nli_checkpoint: Path, bert_checkpoint: Path
) -> None:
    # The checkpoint's classes are neutral, entailment, contradiction.
    argument = f"encoder={bert_checkpoint}:nli={nli_checkpoint}"
    claims = []
    for kind in ("longtracer", "longtracer-labels", "longtracer-documented"):
        peer = make_peer(kind, argument, PeerSetup())
        assert isinstance(peer, LongTracer)
        claims += peer.verify(EXAMPLE)
    shipped, right, documented = claims
    assert shipped.nli, "the sentence is similar enough"
    assert shipped.entailment == right.contradiction
    assert shipped.contradiction == pytest.approx(
        1 - right.entailment - right.contradiction, rel=1e-3
    )
    assert documented == right


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError, match="no option 'encode'; there are encoder, nli"):
        make_peer("longtracer", "encode=minilm", PeerSetup())
