"""Published detectors: HHEM, LettuceDetect, LongTracer and Provenance."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    T5ForTokenClassification,
)

from research.compare.built_in import judge_by
from research.compare.local_model import (
    FloatArray,
    TextModel,
    digest_weights,
    find_file,
    load_part,
    load_text_model,
    refusing,
)
from research.compare.systems import Score, Setup, System, require_response
from trivet.bundle.checkpoint import check_tensors
from trivet.data.sentences import split_sentences
from trivet.errors import ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.importing import import_lettucedetect
from trivet.records import RagExample

HHEM = "vectara/hallucination_evaluation_model"
LETTUCEDETECT = "KRLabsOrg/lettucedect-base-modernbert-en-v1"
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
RERANKER = "mixedbread-ai/mxbai-rerank-base-v1"

_FOUNDATION = "google/flan-t5-base"
_HHEM_PROMPT = (
    "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {}\n\nHypothesis: {}"
)
_NO_LIMIT = 1 << 20  # T5's positions are relative, so nothing is truncated
_TOP = 5  # sentences that Provenance checks
# LongTracer's longest text without claims and source sentence that is left out, and longest
# sentence that is not a claim.
_EMPTY, _SHORT = 10, 15

_STOP = re.compile(r"(?<=[.!?])\s+")
_DECIMAL = re.compile(r"(\d+)\.(\d+)")
_TITLE = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|Inc|Ltd|Jr|Sr|i\.e|e\.g)\.\s")

Read: TypeAlias = Callable[[Sequence[Any]], FloatArray]


class Hhem:
    """HHEM-2.1-open, Vectara's model, as a judge of premises and hypotheses.

    Its repository brings code, which does not run with transformers 5 and is not needed: the model
    is transformers' ``T5ForTokenClassification``, whose first position answers a prompt, that of
    the published ``modeling_hhem_v2.py`` (Apache-2.0).
    """

    def __init__(self, name: str) -> None:
        """Load the weights into transformers' class; ``ConfigError`` if they do not fit."""
        # Its own configuration only names the model whose shape and tokenizer it has.
        config = json.loads(find_file(name, "config.json").read_text(encoding="utf-8"))
        foundation = config.get("foundation", _FOUNDATION)
        model = T5ForTokenClassification(load_part(AutoConfig, foundation))
        file = find_file(name, "model.safetensors")
        with refusing(name):
            state = {key.removeprefix("t5."): value for key, value in load_file(file).items()}
            loaded = model.load_state_dict(state, strict=False)
            # The embedding of T5 has two names, of which a file holds one.
            missing = [key for key in loaded.missing_keys if "embed_tokens" not in key]
            check_tensors(model, [*missing, *loaded.unexpected_keys])
        self.about = f"{name} {digest_weights(file.parent)}"
        tokenizer = load_part(AutoTokenizer, foundation)
        self._model = TextModel(model, self.about, tokenizer, _first_position, _NO_LIMIT)

    def read(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probability that each premise and hypothesis are consistent, [n]."""
        probs: FloatArray = self._model.read([_HHEM_PROMPT.format(*pair) for pair in pairs])[:, 1]
        return probs

    def score(self, example: RagExample) -> Score:
        """Score a whole response, the premise as in the notebooks of arXiv 2503.21157."""
        require_response(example)
        premise = "\n".join([*example.contexts, example.question])
        return Score.at(0.5, float(self.read([(premise, example.response)])[0]))


def _first_position(model: Any, batch: dict[str, Tensor]) -> Tensor:
    probs: Tensor = model(**batch).logits[:, 0].softmax(dim=-1)
    return probs


def split(text: str, longer_than: int) -> list[str]:
    """Split a text at stops as the package does, and keep the pieces longer than a length."""
    text = _DECIMAL.sub(r"\1<D>\2", " ".join(text.split()))
    text = _TITLE.sub(r"\1<A> ", text)
    pieces = (piece.replace("<D>", ".").replace("<A>", ".") for piece in _STOP.split(text))
    return [piece.strip() for piece in pieces if len(piece.strip()) > longer_than]


def claims_of(response: str) -> list[str]:
    """Return the claims of a response: its sentences of 16 characters and more."""
    return split(response, _SHORT) if len(" ".join(response.split())) > _EMPTY else []


class LongTracer:
    """The trust score of LongTracer: the mean similarity of the claims to their best source.

    Re-implemented from longtracer 0.3.1 (MIT, ENDEVSOLS/LongTracer). Its NLI model decides its flag
    alone, never its score, and is not read.
    """

    def __init__(self, embed: Read) -> None:
        """Take an encoder of texts, [n, H]."""
        self._embed = embed

    def score(self, example: RagExample) -> Score:
        """Score one example; a response without claims is trusted, one without sources is not."""
        claims = claims_of(example.response)
        sources = [piece for context in example.contexts for piece in split(context, _EMPTY)]
        if not claims or not sources:
            return Score(0.0 if claims else 1.0)
        vectors = self._embed([*claims, *sources])
        similar = vectors[: len(claims)] @ vectors[len(claims) :].T
        return Score(min(1.0, max(0.0, float(similar.max(axis=1).mean()))))


class Provenance:
    """The five most relevant context sentences; the claim is as good as the best supports it.

    Sankararaman et al., EMNLP 2024 Industry Track (arXiv 2411.01022), section 3; no code of theirs
    is published.
    """

    def __init__(self, rank: Read, support: Read) -> None:
        """Take the relevance of pairs of question and sentence, and the support of a claim, [n]."""
        self._rank, self._support = rank, support

    def score(self, example: RagExample) -> Score:
        """Score one example, flagged below .5."""
        require_response(example)
        spans = example.context_sentences or tuple(map(split_sentences, example.contexts))
        pairs = zip(example.contexts, spans, strict=True)
        sentences = [text[span.start : span.end] for text, part in pairs for span in part]
        if not sentences:
            raise ExampleError("the contexts are empty", "empty_contexts")
        relevance = self._rank([(example.question, sentence) for sentence in sentences])
        chosen = np.sort(np.argsort(-relevance, kind="stable")[:_TOP]).tolist()
        claim = f"The answer to question {example.question} is {example.response}."
        support = self._support([(sentences[at], claim) for at in chosen])
        return Score.at(0.5, float(support.max()))


def _one_logit(model: Any, batch: dict[str, Tensor]) -> Tensor:
    logits: Tensor = model(**batch).logits[:, 0].sigmoid()
    return logits


def _mean_embedding(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return the mean of the hidden states, of length 1. *Shape:* [n, H]."""
    return nn.functional.normalize(model(**batch).last_hidden_state.mean(dim=1), dim=-1)


def load(name: str, argument: str, setup: Setup) -> System:
    """Return a detector; the argument is a folder or a name on the hub in place of its own model.

    ``provenance:RERANKER,VERIFIER`` has two. LettuceDetect is read as `trivet import lettucedetect`
    reads it, flagged by its weakest token.
    """
    if name == "hhem":
        hhem = Hhem(argument or HHEM)
        return System(f"HHEM, {hhem.about}", hhem.score)
    if name == "longtracer":
        embed = load_text_model(AutoModel, argument or ENCODER, _mean_embedding, longest=256)
        return System(f"longtracer 0.3.1, {embed.about}", LongTracer(embed.read).score)
    if name == "provenance":
        first, _, second = argument.partition(",")
        classifier = AutoModelForSequenceClassification
        rank = load_text_model(classifier, first or RERANKER, _one_logit)
        verifier = Hhem(second or HHEM)
        about = f"provenance, top {_TOP}, relevance by {rank.about}, support by {verifier.about}"
        return System(about, Provenance(rank.read, verifier.read).score)
    with tempfile.TemporaryDirectory() as folder:
        import_lettucedetect(argument or LETTUCEDETECT, Path(folder) / "bundle")
        evaluator = Evaluator(Path(folder) / "bundle", setup.threads, backend="torch")

    def score(example: RagExample) -> Score:
        verdict = judge_by(evaluator, example)
        return Score.at(0.5, verdict.faithfulness or 0.0, spans=verdict.spans)

    return System(f"LettuceDetect, {argument or LETTUCEDETECT}", score)
