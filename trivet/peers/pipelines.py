"""LongTracer and Provenance: the context sentences nearest to a claim, then a model that checks it.

LongTracer is re-implemented from longtracer 0.3.1 (MIT, ENDEVSOLS/LongTracer), without its optional
third model. The package reads the positions 2 and 1 of its NLI checkpoint as entailment and
neutral, which that checkpoint has the other way round, and its trust score is the mean similarity;
its documentation describes a share of supported claims. Hence three columns.

Provenance is Sankararaman et al., EMNLP 2024 Industry Track (arXiv 2411.01022), section 3; no code
of theirs is published.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from trivet.peers.claims import context_sentences, read_options, require_response
from trivet.peers.entailment import HHEM, CrossEncoder, Entailment, Hhem, Relations, load_entailment
from trivet.peers.local_model import (
    FloatArray,
    TextModel,
    load_classifier,
    load_embedder,
    sigmoid_score,
)
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample, Span

Column = Literal["longtracer", "longtracer-labels", "longtracer-documented"]

NLI = "cross-encoder/nli-deberta-v3-xsmall"
_SHIPPED_ORDER = 2, 0  # positions that the package takes for entailment and contradiction
_SUPPORT = 0.40  # similarity
_GATE = 0.25  # similarity below which the NLI model is not asked
_LOW = 0.20  # similarity below which outside knowledge is a hallucination...
_RESCUE = 0.3  # ...unless entailment reaches this
_DECIDED = 0.5  # probability of entailment or contradiction
_EMPTY = 10  # most characters of a text without claims, and of a source sentence that is left out
_SHORT = 15  # most characters of a sentence that is no claim

_STOP = re.compile(r"(?<=[.!?])\s+")
_DECIMAL = re.compile(r"(\d+)\.(\d+)")
_TITLE = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|Inc|Ltd|Jr|Sr|i\.e|e\.g)\.\s")
_META = re.compile(
    "the (?:provided )?documents do not contain|I don't have information"
    "|I cannot find information|the context does not provide|there is no information about"
    "|not mentioned in the|no specific information|I could not find",
    re.IGNORECASE,
)
_OUTSIDE = re.compile(
    "based on (?:my |general )?knowledge|from my training|I know that|generally speaking"
    "|it is well known|as we all know|in my understanding",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Claim:
    """A claim with its similarity to the best source sentence and its relation to that one."""

    text: str
    similarity: float
    entailment: float
    contradiction: float
    nli: bool

    @property
    def supported(self) -> bool:
        """Whether it is similar or entailed, and not contradicted."""
        return (self.similarity >= _SUPPORT or self.entailment > _DECIDED) and not self.contradicted

    @property
    def contradicted(self) -> bool:
        """Whether the source sentence contradicts it."""
        return self.contradiction > _DECIDED

    @property
    def hallucination(self) -> bool:
        """Whether it is contradicted, or outside knowledge that nothing resembles."""
        if _META.search(self.text):
            return False
        outside = _OUTSIDE.search(self.text) is not None and self.similarity < _LOW
        return self.contradicted or (outside and (not self.nli or self.entailment < _RESCUE))


def split(text: str, longer_than: int) -> list[str]:
    """Split a text at stops as the package does, and keep the pieces longer than a length."""
    text = _DECIMAL.sub(r"\1<D>\2", " ".join(text.split()))
    text = _TITLE.sub(r"\1<A> ", text)
    pieces = (piece.replace("<D>", ".").replace("<A>", ".") for piece in _STOP.split(text))
    return [piece.strip() for piece in pieces if len(piece.strip()) > longer_than]


def claims_of(response: str) -> list[str]:
    """Return the claims of a response: its sentences of 16 characters and more."""
    return split(response, _SHORT) if len(" ".join(response.split())) > _EMPTY else []


class LongTracer(Peer):
    """One column of LongTracer; without claims its trust is 1."""

    def __init__(self, column: Column, embedder: TextModel, nli: Entailment | None) -> None:
        """Take the models; without an NLI model similarity alone decides."""
        self._documented = column == "longtracer-documented"
        self._embedder, self._nli = embedder, nli
        trust = "" if self._documented else "signed mean, "
        self.about = (
            f"{column} 0.3.1, {trust}{embedder.about}, {nli.about if nli else 'no NLI model'}"
        )

    def score(self, example: RagExample) -> PeerScore:
        """Score one example: mean similarity, or in the documented column the supported share."""
        claims = self.verify(example)
        good = [claim.supported for claim in claims]
        values = good if self._documented else [claim.similarity for claim in claims]
        failed = [c for c in claims if not c.supported or c.hallucination]
        return PeerScore(
            min(1.0, max(0.0, float(np.mean(values)))) if claims else 1.0,
            hallucinated=bool(failed),
            spans=_find(example.response, [claim.text for claim in failed]),
        )

    def verify(self, example: RagExample) -> list[Claim]:
        """Hold each claim of the response against the contexts."""
        texts = claims_of(example.response)
        sources = [piece for context in example.contexts for piece in split(context, _EMPTY)]
        if not texts or not sources:
            return [Claim(text, 0.0, 0.0, 0.0, nli=False) for text in texts]
        vectors = self._embedder.read([*texts, *sources])
        # A claim is one sentence unless an abbreviation was protected, so it is its own sentence.
        similar = vectors[: len(texts)] @ vectors[len(texts) :].T
        best = similar.argmax(axis=1)
        similarity = similar.max(axis=1)
        asked = np.flatnonzero(similarity >= _GATE) if self._nli else np.zeros(0, dtype=np.int64)
        entailment, contradiction = np.zeros(len(texts)), np.zeros(len(texts))
        if self._nli and len(asked):
            found: Relations = self._nli.relate(
                [(sources[best[i]], texts[i]) for i in asked.tolist()]
            )
            entailment[asked], contradiction[asked] = found
        return [
            Claim(
                text,
                float(similarity[i]),
                float(entailment[i]),
                float(contradiction[i]),
                i in asked,
            )
            for i, text in enumerate(texts)
        ]


def _find(response: str, claims: Sequence[str]) -> tuple[Span, ...]:
    """Return the places of claims in the response; white space may differ."""
    spans, start = [], 0
    for claim in claims:
        pattern = r"\s+".join(map(re.escape, claim.split()))
        if match := re.compile(pattern).search(response, start):
            spans.append(Span(match.start(), match.end()))
            start = match.end()
    return tuple(spans)


def _longtracer(kind: Column, argument: str, setup: PeerSetup) -> Peer:
    """Return a column of ``longtracer``, with ``encoder=NAME:nli=NAME`` in place of its models.

    ``nli=support`` takes the embedded bundle's support head, ``nli=none`` leaves similarity alone.
    """
    options = read_options(kind, argument, {"encoder": "minilm", "nli": NLI})
    name = options["nli"]
    nli: Entailment | None
    if name == "none":
        nli = None
    elif kind == "longtracer" and name != "support":
        nli = CrossEncoder(name, _SHIPPED_ORDER)
    else:
        nli = load_entailment(name, setup)
    return LongTracer(kind, load_embedder(options["encoder"]), nli)


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
        require_response(example)
        sentences = context_sentences(example)
        relevance = self._relevance(example.question, sentences)
        chosen = np.sort(np.argsort(-relevance, kind="stable")[:TOP]).tolist()
        claim = f"The answer to question {example.question} is {example.response}."
        support = self._support([(sentences[at], claim) for at in chosen])
        return PeerScore.at(0.5, float(support.max()))


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
    """Return a column of ``longtracer`` or ``provenance``, with other models where they are named.

    Raises:
        ConfigError: An option is unknown, or a model cannot be loaded.
    """
    if kind == "provenance":
        return _provenance(argument, setup)
    return _longtracer(cast(Column, kind), argument, setup)


def _provenance(argument: str, setup: PeerSetup) -> Peer:
    """Return ``provenance`` with its options.

    ``encoder=NAME`` ranks by cosine in place of the reranker. In place of HHEM ``nli=support``
    checks by the embedded bundle's support head, and ``nli=NAME`` by an NLI checkpoint.
    """
    defaults = {"reranker": RERANKER, "encoder": "", "verifier": HHEM, "nli": ""}
    options = read_options("provenance", argument, defaults)
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
