"""Whether a premise entails a claim, by whatever model is at hand; peers ``nli`` and ``hhem``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor
from transformers import T5ForTokenClassification

from trivet.errors import ConfigError
from trivet.evaluation.evaluator import Evaluator
from trivet.peers.built_in import EvaluatorPeer
from trivet.peers.claims import pack, require_response, score_sentences, sentences_of
from trivet.peers.local_model import (
    FloatArray,
    TextModel,
    class_probs,
    load_classifier,
    load_config,
    load_renamed,
    load_tokenizer,
    read_json,
)
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
            example = RagExample("", (premise,), claim, response_sentences=whole)
            support += [one.support for one in self._peer.verdict(example).sentences]
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


HHEM = "vectara/hallucination_evaluation_model"
_FOUNDATION = "google/flan-t5-base"
_HHEM_PROMPT = (
    "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {}\n\nHypothesis: {}"
)
_LONGEST = 1 << 20  # T5's positions are relative; nothing is cut


class Hhem:
    """HHEM-2.1-open, Vectara's model, as a judge of premises and hypotheses.

    Its repository brings code, which does not run with transformers 5 and is not needed: the model
    is transformers' ``T5ForTokenClassification``, whose first position answers a prompt, that of
    the published ``modeling_hhem_v2.py`` (Apache-2.0).
    """

    def __init__(self, name: str) -> None:
        """Load the weights into transformers' class; ``ConfigError`` if they do not fit."""
        # Its own configuration only names the model whose shape and tokenizer it has.
        foundation = read_json(name, "config.json").get("foundation", _FOUNDATION)
        empty = T5ForTokenClassification(load_config(foundation))
        model, self.about = load_renamed(name, empty, lambda key: key.removeprefix("t5."))
        tokenizer = load_tokenizer(foundation)
        self._model = TextModel(model, self.about, tokenizer, first_position, _LONGEST)

    def read(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probability that each premise and hypothesis are consistent, [n]."""
        probs: FloatArray = self._model.read([_HHEM_PROMPT.format(*pair) for pair in pairs])[:, 1]
        return probs


def first_position(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return the class probabilities of the first position. *Shape:* [n, 2]."""
    return class_probs(model, batch)[:, 0]


class HhemPeer(Peer):
    """HHEM on the passages with the question, and the whole response, at .5.

    The input is that of the notebooks of "Real-Time Evaluation Models for RAG" (arXiv 2503.21157).
    """

    def __init__(self, hhem: Hhem) -> None:
        self._hhem = hhem
        self.about = f"HHEM, {hhem.about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example."""
        require_response(example)
        premise = "\n".join([*example.contexts, example.question])
        return PeerScore.at(0.5, float(self._hhem.read([(premise, example.response)])[0]))


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``nli`` or ``hhem`` with a folder or hub name."""
    return HhemPeer(Hhem(argument or HHEM)) if kind == "hhem" else NliBySentence(argument or NLI)
