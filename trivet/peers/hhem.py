"""HHEM-2.1-open: Vectara's consistency model, an encoder of FLAN-T5 with a classifier.

Its repository brings code, which does not run with transformers 5 and is not needed: the model is
transformers' ``T5ForTokenClassification``, whose first position answers a prompt. The prompt is
that of the published ``modeling_hhem_v2.py`` (Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers import T5ForTokenClassification

from trivet.errors import ExampleError
from trivet.peers.local_model import (
    FloatArray,
    TextModel,
    class_probs,
    load_config,
    load_renamed,
    load_tokenizer,
    read_json,
)
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample

NAME = "vectara/hallucination_evaluation_model"
FOUNDATION = "google/flan-t5-base"
PROMPT = (
    "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {}\n\nHypothesis: {}"
)
_LONGEST = 1 << 20  # T5's positions are relative; nothing is cut


class Hhem:
    """HHEM as a judge of premises and hypotheses."""

    def __init__(self, name: str) -> None:
        """Load the weights into transformers' class; ``ConfigError`` if they do not fit."""
        # Its own configuration only names the model whose shape and tokenizer it has.
        foundation = read_json(name, "config.json").get("foundation", FOUNDATION)
        empty = T5ForTokenClassification(load_config(foundation))
        model, self.about = load_renamed(name, empty, lambda key: key.removeprefix("t5."))
        tokenizer = load_tokenizer(foundation)
        self._model = TextModel(model, self.about, tokenizer, first_position, _LONGEST)

    def read(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probability that each premise and hypothesis are consistent, [n]."""
        probs: FloatArray = self._model.read([PROMPT.format(*pair) for pair in pairs])[:, 1]
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
        if not example.response.strip():
            raise ExampleError("the response is empty", "empty_response")
        premise = "\n".join([*example.contexts, example.question])
        return PeerScore.at(0.5, float(self._hhem.read([(premise, example.response)])[0]))


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``hhem`` with a folder or hub name."""
    return HhemPeer(Hhem(argument or NAME))
