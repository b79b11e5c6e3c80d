"""Provenance: the most relevant context sentences, each checked against one claim.

Sankararaman et al., EMNLP 2024 Industry Track (arXiv 2411.01022), section 3; no code of theirs is
published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trivet.errors import ExampleError
from trivet.peers.claims import context_sentences, read_options
from trivet.peers.entailment import HHEM, Hhem, load_entailment
from trivet.peers.local_model import FloatArray, load_classifier, load_embedder, sigmoid_score
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample

Relevance = Callable[[str, Sequence[str]], FloatArray]
Support = Callable[[Sequence[tuple[str, str]]], FloatArray]

RERANKER = "mixedbread-ai/mxbai-rerank-base-v1"
TOP = 5


class Provenance(Peer):
    """The five most relevant context sentences; the claim is as good as the best supports it."""

    def __init__(self, relevance: Relevance, support: Support, about: str) -> None:
        self._relevance, self._support = relevance, support
        self.about = f"provenance without empty responses, top {TOP}, max, {about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example; flagged below .5."""
        if not example.response.strip():
            raise ExampleError("the response is empty", "empty_response")
        sentences = context_sentences(example)
        relevance = self._relevance(example.question, sentences)
        chosen = np.sort(np.argsort(-relevance, kind="stable")[:TOP]).tolist()
        claim = f"The answer to question {example.question} is {example.response}."
        support = self._support([(sentences[at], claim) for at in chosen])
        sources = [
            {"sentence": at, "relevance": value, "support": supports}
            for at, value, supports in zip(
                chosen, relevance[chosen].tolist(), support.tolist(), strict=True
            )
        ]
        return PeerScore.at(0.5, float(support.max()), raw=sources)


def cosine_relevance(encoder: str) -> tuple[Relevance, str]:
    """Return the relevance by the cosine of a sentence encoder, 0 where it is negative."""
    model = load_embedder(encoder)

    def relevance(question: str, sentences: Sequence[str]) -> FloatArray:
        vectors = model.read([question, *sentences])
        cosine: FloatArray = (vectors[1:] @ vectors[0]).clip(min=0)
        return cosine

    return relevance, f"cosine of {model.about}"


def reranker_relevance(name: str) -> tuple[Relevance, str]:
    """Return the relevance by a cross-encoder with one logit."""
    model = load_classifier(name, head=sigmoid_score)
    return lambda question, texts: model.read([(question, text) for text in texts]), model.about


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``provenance`` with its options.

    ``encoder=NAME`` ranks by cosine in place of the reranker. In place of HHEM ``nli=support``
    checks by the embedded bundle's support head, and ``nli=NAME`` by an NLI checkpoint.

    Raises:
        ConfigError: An option is unknown, or a model cannot be loaded.
    """
    defaults = {"reranker": RERANKER, "encoder": "", "verifier": HHEM, "nli": ""}
    options = read_options(kind, argument, defaults)
    encoder = options["encoder"]
    relevance, ranked_by = (
        cosine_relevance(encoder) if encoder else reranker_relevance(options["reranker"])
    )
    support: Support
    if options["nli"]:
        nli = load_entailment(options["nli"], setup)
        support, verified_by = lambda pairs: nli.relate(pairs).entailment, nli.about
    else:
        verifier = Hhem(options["verifier"])
        support, verified_by = verifier.read, verifier.about
    about = f"relevance by {ranked_by}, support by {verified_by}"
    return Provenance(relevance, support, about)
