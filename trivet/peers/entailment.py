"""Natural language inference between a premise and a claim, by whatever model is at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from trivet.errors import ConfigError
from trivet.evaluation.evaluator import Evaluator
from trivet.peers.claims import pack, score_sentences, sentences_of
from trivet.peers.evaluator_peer import EvaluatorPeer
from trivet.peers.local_model import FloatArray, load_classifier
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample, Span

NLI = "cross-encoder/nli-deberta-v3-base"
_PASSAGE_TOKENS = 384  # of a window of 512, which leaves room for the claim


class Relations(NamedTuple):
    """Probabilities that a premise entails and contradicts a claim. *Shape of each:* [n]."""

    entailment: FloatArray
    contradiction: FloatArray


class Entailment(Protocol):
    """A judge of premises and claims; ``about`` names the model."""

    about: str

    def relate(self, pairs: Sequence[tuple[str, str]]) -> Relations:
        """Relate each pair of premise and claim."""


def class_index(label2id: Mapping[str, Any], name: str, model: str) -> int:
    """Return the position of a class by its name, in any spelling.

    Raises:
        ConfigError: The model has no such class.
    """
    for label, index in label2id.items():
        if label.lower() == name:
            return int(index)
    raise ConfigError(f"peer model {model!r} has no class {name}: label2id is {dict(label2id)}")


class CrossEncoder:
    """An NLI checkpoint with classes found by name; one without contradiction has 1 - entailment.

    Attributes:
        about: Name of the model, with revision or digest.
    """

    def __init__(self, name: str, order: tuple[int, int] | None = None) -> None:
        """Load a checkpoint.

        Args:
            name: Folder or hub name.
            order: Positions of entailment and contradiction, in place of those of its labels.
        """
        self.model = load_classifier(name)
        self.about = self.model.about
        labels = self.model.config.label2id
        if order is None:
            entails = class_index(labels, "entailment", name)
            two = len(labels) == 2
            order = entails, 1 - entails if two else class_index(labels, "contradiction", name)
        self._order = order

    def relate(self, pairs: Sequence[tuple[str, str]]) -> Relations:
        """Relate each pair of premise and claim."""
        probs = self.model.read(pairs)
        return Relations(probs[:, self._order[0]], probs[:, self._order[1]])


class SupportHead:
    """The support head of a bundle; unsupported counts as contradicted, as it is trained."""

    def __init__(self, peer: EvaluatorPeer) -> None:
        self._peer = peer
        self.about = f"support head of {peer.about}"

    def relate(self, pairs: Sequence[tuple[str, str]]) -> Relations:
        """Relate each pair; the claim is judged as one sentence."""
        support = []
        for premise, claim in pairs:
            whole = (Span(0, len(claim)),)
            score = self._peer.score(RagExample("", (premise,), claim, response_sentences=whole))
            support += [one.faithfulness for one in score.sentences or ()]
        entails = np.array(support)
        return Relations(entails, 1 - entails)


def load_entailment(name: str, setup: PeerSetup) -> Entailment:
    """Load ``support`` (the embedded bundle's support head) or an NLI checkpoint."""
    if name == "support":
        return SupportHead(EvaluatorPeer(Evaluator(threads=setup.threads)))
    return CrossEncoder(name)


class NliBySentence(Peer):
    """An NLI cross-encoder: the weakest sentence by its best passage, at P(entailment) = .5."""

    def __init__(self, name: str) -> None:
        self._nli = CrossEncoder(name)
        self.about = f"NLI by sentence, {self._nli.about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example."""
        tokenizer = self._nli.model.tokenizer
        chunks = [
            chunk
            for context in example.contexts
            for chunk in pack(
                sentences_of(context),
                _PASSAGE_TOKENS,
                lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"]),
            )
        ]
        return score_sentences(example, chunks, lambda pairs: self._nli.relate(pairs).entailment)


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``nli`` with a folder or hub name."""
    return NliBySentence(argument or NLI)
