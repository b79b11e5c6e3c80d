"""Peers with their published weights, on a claim that is supported and one that is not.

A score that does not depend on the claim, or that counts the other way, fails here.
"""

from __future__ import annotations

import pytest

from trivet.peers.chunk_checkers import NAME, FactCG
from trivet.peers.local_model import load_classifier
from trivet.peers.peer import PeerSetup, load_peer
from trivet.records import RagExample

DOCUMENT = "A group of students gather in the school library to study for their exams."
QUESTION = "Where do the students study?"
SUPPORTED = "The students study in the school library."
UNSUPPORTED = "The volcano erupted again in 1817."

pytestmark = pytest.mark.network


def flags(peer: str) -> list[bool | None]:
    """Return whether a peer flags the supported and the unsupported claim."""
    judge = load_peer(peer, PeerSetup())
    examples = (RagExample(QUESTION, (DOCUMENT,), claim) for claim in (SUPPORTED, UNSUPPORTED))
    return [judge.score(example).hallucinated for example in examples]


@pytest.mark.parametrize(
    "peer",
    [
        "nli",
        "hhem",
        "minicheck:roberta",
        "minicheck:deberta",
        "minicheck:flan-t5",
        "factcg",
        "lettucedetect",
        "longtracer",
        "longtracer-labels",
        "longtracer-documented",
        "provenance",
    ],
)
def test_only_the_unsupported_claim_is_flagged(peer: str) -> None:
    assert flags(peer) == [False, True]


@pytest.mark.parametrize(
    ("claim", "supported"),
    [("The students are preparing for an examination.", True), ("The group went home.", False)],
)
def test_the_claims_of_minicheck(claim: str, supported: bool) -> None:
    score = load_peer("minicheck", PeerSetup()).score(RagExample("", (DOCUMENT,), claim))
    assert score.hallucinated is not supported


@pytest.mark.parametrize(
    ("document", "published"), [("sun raises from east", 0.0653), ("sun raises from west", 0.7840)]
)
def test_the_scores_of_factcg_in_its_own_readme(document: str, published: float) -> None:
    peer = FactCG(load_classifier(NAME, 2048))
    assert peer.support([(document, "sun raises from west")])[0] == pytest.approx(
        published, abs=0.01
    )
