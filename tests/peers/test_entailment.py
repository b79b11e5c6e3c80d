"""NLI models in place of one another, and NLI by sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from trivet.errors import ConfigError, ExampleError
from trivet.peers.claims import pack
from trivet.peers.entailment import CrossEncoder, class_index, load_entailment, make_peer
from trivet.peers.peer import PeerSetup
from trivet.records import RagExample

PAIRS = [("The mill is old.", "The mill was built in 1817."), ("The boat is red.", "It is wide.")]


@pytest.mark.parametrize(
    "labels",
    [
        ("ENTAILMENT", "NEUTRAL", "CONTRADICTION"),
        ("contradiction", "entailment", "neutral"),
        ("Neutral", "Contradiction", "Entailment"),
        ("ENTAILMENT", "NOT_ENTAILMENT"),
        ("not_entailment", "entailment"),
    ],
)
def test_any_order_and_spelling_of_the_classes_gives_the_same_relations(
    nli_checkpoint: Path, tmp_path: Path, labels: tuple[str, ...]
) -> None:
    auto = transformers.AutoModelForSequenceClassification
    model = auto.from_pretrained(nli_checkpoint)
    # Positions in the checkpoint; what is not entailed is neutral there.
    known = {"neutral": 0, "entailment": 1, "contradiction": 2, "not_entailment": 0}
    order = [known[label.lower()] for label in labels]
    head, few = model.classifier, torch.nn.Linear(model.config.hidden_size, len(labels))
    few.load_state_dict({name: value[order] for name, value in head.state_dict().items()})
    model.classifier = few
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {label: place for place, label in enumerate(labels)}
    model.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((nli_checkpoint / "tokenizer.json").read_bytes())

    probs = CrossEncoder(str(nli_checkpoint)).model.read(PAIRS)[:, order]
    probs /= probs.sum(axis=1, keepdims=True)
    spelled = [label.lower() for label in labels]
    contradicts = "contradiction" if len(labels) == 3 else "not_entailment"
    expected = probs[:, [spelled.index("entailment"), spelled.index(contradicts)]]
    found = np.stack(CrossEncoder(str(tmp_path)).relate(PAIRS), axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(found[:, 0] - found[:, 1]).min() > 0.01, "the two must differ"


def test_a_checkpoint_without_the_class_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no class entailment: label2id is .'LABEL_0': 0"):
        class_index({"LABEL_0": 0}, "entailment", "model")


def test_the_support_head_counts_the_unsupported_as_contradicted() -> None:
    judge = load_entailment("support", PeerSetup(threads=1))
    relations = judge.relate([("The mill is old.", "The mill is old. It is not.")] * 2)
    np.testing.assert_allclose(relations.entailment + relations.contradiction, 1)
    assert relations.entailment[0] == relations.entailment[1]
    assert "support head of bundle" in judge.about


def test_the_response_is_as_supported_as_its_weakest_sentence(nli_checkpoint: Path) -> None:
    peer = make_peer("nli", str(nli_checkpoint), PeerSetup())
    example = RagExample("", ("The mill is old.", "The boat is red."), "It is old. It is a boat.")
    score = peer.score(example)
    judge = CrossEncoder(str(nli_checkpoint))
    expected = [
        judge.relate([(context, claim) for context in example.contexts]).entailment.max()
        for claim in ("It is old.", "It is a boat.")
    ]
    assert score.faithfulness == pytest.approx(min(expected), abs=1e-6)


@pytest.mark.parametrize(
    ("contexts", "response", "code"),
    [(("It is red.",), " ", "empty_response"), ((), "It is red.", "empty_contexts")],
)
def test_an_empty_side_is_refused(
    nli_checkpoint: Path, contexts: tuple[str, ...], response: str, code: str
) -> None:
    with pytest.raises(ExampleError) as refused:
        make_peer("nli", str(nli_checkpoint), PeerSetup()).score(RagExample("", contexts, response))
    assert refused.value.code == code


def test_a_model_without_a_classifier_is_refused(bert_checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match=r"2 tensors are missing .* first classifier\.bias"):
        make_peer("nli", str(bert_checkpoint), PeerSetup())


@pytest.mark.parametrize(
    ("pieces", "chunks"),
    [
        (["a b", "c", "d e"], ["a b c", "d e"]),
        (["a b c d", "e"], ["a b c d", "e"]),
        (["a", "b c d e", "f"], ["a", "b c d e", "f"]),
        ([], []),
    ],
)
def test_pieces_are_packed_in_order_up_to_the_limit(pieces: list[str], chunks: list[str]) -> None:
    assert pack(pieces, 3, lambda piece: len(piece.split())) == chunks
