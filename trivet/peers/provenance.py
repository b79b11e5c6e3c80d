"""Provenance: the most relevant context sentences, each checked against one claim.

Sankararaman et al., EMNLP 2024 Industry Track (arXiv 2411.01022), section 3; no code of theirs is
published. How relevance becomes a share is not said there: here by sigmoid and division.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast, get_args

import numpy as np

from trivet.errors import ConfigError, ExampleError
from trivet.peers.claims import context_sentences, read_options
from trivet.peers.entailment import HHEM, Hhem, load_entailment
from trivet.peers.local_model import FloatArray, load_classifier, load_embedder, sigmoid_score
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample

Selection = Literal["top_k", "top_p"]
Aggregate = Literal["max", "min", "weighted"]
Relevance = Callable[[str, Sequence[str]], FloatArray]
Support = Callable[[Sequence[tuple[str, str]]], FloatArray]

RERANKER = "mixedbread-ai/mxbai-rerank-base-v1"
TOP_K = 5
TOP_P = 0.9


def select(relevance: FloatArray, selection: Selection) -> tuple[list[int], FloatArray]:
    """Select sources by their relevance.

    Args:
        relevance: Scores of at least 0. *Shape:* [n].
        selection: The 5 highest, or the fewest that hold .9 of the sum.

    Returns:
        Their positions in the original order, and their weights, which sum to 1.
    """
    total = relevance.sum()
    shares = relevance / total if total > 0 else np.full(len(relevance), 1 / len(relevance))
    ranked = np.argsort(-shares, kind="stable")
    before = np.cumsum(shares[ranked]) - shares[ranked]
    count = TOP_K if selection == "top_k" else int((before < TOP_P - 1e-9).sum())
    chosen = np.sort(ranked[:count])
    return chosen.tolist(), shares[chosen] / shares[chosen].sum()


def claim_of(example: RagExample) -> str:
    """Return the claim that the sources are checked against."""
    return f"The answer to question {example.question} is {example.response}."


class Provenance(Peer):
    """Relevance of each context sentence, then support of the claim by the chosen ones."""

    def __init__(
        self,
        relevance: Relevance,
        support: Support,
        selection: Selection,
        aggregate: Aggregate,
        about: str,
    ) -> None:
        self._relevance, self._support = relevance, support
        self._selection, self._aggregate = selection, aggregate
        self.about = f"provenance without empty responses, {selection}, {aggregate}, {about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example; flagged below .5."""
        if not example.response.strip():
            raise ExampleError("the response is empty", "empty_response")
        sentences = context_sentences(example)
        chosen, weights = select(self._relevance(example.question, sentences), self._selection)
        claim = claim_of(example)
        support = self._support([(sentences[at], claim) for at in chosen])
        joined = {"max": support.max(), "min": support.min(), "weighted": support @ weights}
        sources = [
            {"sentence": at, "weight": weight, "support": value}
            for at, weight, value in zip(chosen, weights.tolist(), support.tolist(), strict=True)
        ]
        return PeerScore.at(0.5, float(joined[self._aggregate]), raw=sources)


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
    options = read_options(
        kind,
        argument,
        {
            "reranker": RERANKER,
            "encoder": "",
            "verifier": HHEM,
            "nli": "",
            "select": "top_k",
            "aggregate": "max",
        },
    )
    for key, values in (("select", get_args(Selection)), ("aggregate", get_args(Aggregate))):
        if options[key] not in values:
            raise ConfigError(
                f"peer {kind}:{argument}: {key} ({options[key]}) must be {' or '.join(values)}"
            )
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
    return Provenance(
        relevance,
        support,
        cast(Selection, options["select"]),
        cast(Aggregate, options["aggregate"]),
        f"relevance by {ranked_by}, support by {verified_by}",
    )
