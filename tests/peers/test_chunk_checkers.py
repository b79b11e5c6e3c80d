"""MiniCheck and FactCG: the inputs and heads of their published code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from trivet.peers.chunk_checkers import MiniCheck, make_peer
from trivet.peers.peer import PeerSetup
from trivet.records import RagExample

DOC, CLAIM = "The mill is old. It was built of stone.", "The mill is wide."
EXAMPLE = RagExample("", (DOC,), f"{CLAIM} It is old.")
kinds = pytest.mark.parametrize("kind", ["roberta", "deberta", "flan-t5"])


def minicheck_of(folders: dict[str, Path], kind: str) -> MiniCheck:
    peer = make_peer("minicheck", str(folders[kind]), PeerSetup())
    assert isinstance(peer, MiniCheck)
    return peer


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("roberta", f"{DOC}</s>{CLAIM}"),
        ("deberta", f"{DOC}[SEP]{CLAIM}"),
        ("flan-t5", f"predict: {DOC}</s>{CLAIM}"),
    ],
)
def test_minicheck_reads_chunk_and_claim_as_one_sequence(
    minicheck_checkpoints: dict[str, Path], kind: str, text: str
) -> None:
    folder = minicheck_checkpoints[kind]
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        if kind == "flan-t5":
            t5 = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
            start = torch.zeros((1, 1), dtype=torch.long)
            logits = t5(**encoded, decoder_input_ids=start).logits.squeeze(1)[:, [3, 209]]
        else:
            auto = transformers.AutoModelForSequenceClassification
            logits = auto.from_pretrained(folder).eval()(**encoded).logits
    peer = minicheck_of(minicheck_checkpoints, kind)
    expected = logits.softmax(-1)[0, 1].item()
    assert peer.support([(DOC, CLAIM)])[0] == pytest.approx(expected, abs=1e-6)


@kinds
def test_minicheck_takes_the_best_chunk_of_the_weakest_sentence(
    minicheck_checkpoints: dict[str, Path], kind: str
) -> None:
    peer = minicheck_of(minicheck_checkpoints, kind)
    long = " ".join(["The old mill is red."] * 130)
    example = RagExample("", (long, DOC), EXAMPLE.response)
    chunks = peer.chunks(example.contexts)
    assert len(chunks) > 1
    best = [peer.support([(c, claim) for c in chunks]).max() for claim in (CLAIM, "It is old.")]
    score = peer.score(example)
    assert score.faithfulness == pytest.approx(min(best), abs=1e-6)
    assert score.hallucinated is bool(min(best) < 0.5)


def test_minicheck_keeps_line_breaks_and_drops_empty_lines(
    minicheck_checkpoints: dict[str, Path],
) -> None:
    peer = minicheck_of(minicheck_checkpoints, "flan-t5")
    assert peer.chunks(["It is old. It is red.", "It is new."]) == [
        "It is old. It is red.\nIt is new."
    ]
    assert peer.chunks(["", " "]) == []


def test_factcg_asks_its_question(minicheck_checkpoints: dict[str, Path]) -> None:
    folder = str(minicheck_checkpoints["deberta"])
    peer: Any = make_peer("factcg", folder, PeerSetup())
    text = (
        f"{DOC}\n\nChoose your answer: based on the paragraph above can we conclude that "
        f'"{CLAIM}"?\n\nOPTIONS:\n- Yes\n- No\nI think the answer is '
    )
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    auto = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = auto(**encoded).logits.softmax(-1)[0, 1].item()
    assert peer.support([(DOC, CLAIM)])[0] == pytest.approx(expected, abs=1e-6)
    score = peer.score(EXAMPLE)
    chunk = DOC.replace(". It", ".\nIt")
    both = peer.support([(chunk, CLAIM), (chunk, "It is old.")])
    assert score.faithfulness == pytest.approx(min(both), abs=1e-6)
