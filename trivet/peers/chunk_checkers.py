"""MiniCheck and FactCG: each sentence of the response against chunks of the passages.

- MiniCheck, Tang et al., EMNLP 2024: chunk and sentence in one sequence, as in
  ``minicheck/inference.py`` of Liyan06/MiniCheck (Apache-2.0).
- FactCG, Lei et al., NAACL 2025: a question about both, answered by DeBERTa, as in
  ``factcg/inference.py`` and ``utils.py`` of derenlei/FactCG (MIT) at commit 4eb1537; at commit
  92a94cc, and in the loader of the training rows, it has "-No" for "- No".

The sentence and word splitters are those of this package, in place of NLTK's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM

from trivet.peers.claims import pack, score_sentences, sentences_of
from trivet.peers.local_model import (
    FloatArray,
    TextModel,
    load_classifier,
    load_config,
    load_pretrained,
    load_tokenizer,
)
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample

NAMES = {
    "roberta": "lytang/MiniCheck-RoBERTa-Large",
    "deberta": "lytang/MiniCheck-DeBERTa-v3-Large",
    "flan-t5": "lytang/MiniCheck-Flan-T5-Large",
}
ANSWERS = 3, 209
"""Ids of FLAN-T5's pieces for unsupported and supported."""

_WORDS, _TOKENS = 500, 400  # of a chunk, for FLAN-T5 and for the others
_LONGEST = {"roberta": 512}
_OTHERWISE = 2048


class MiniCheck(Peer):
    """MiniCheck by the best chunk of the weakest sentence, at .5.

    Its authors leave the join of several sentences to the caller.
    """

    def __init__(self, model: TextModel) -> None:
        self._model, self._t5 = model, model.config.model_type == "t5"
        self.about = f"MiniCheck, {model.about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example."""
        return score_sentences(example, self.chunks(example.contexts), self.support)

    def chunks(self, contexts: Sequence[str]) -> list[str]:
        """Return the passages' lines and sentences in chunks."""
        pieces: list[str] = []
        for line in "\n".join(contexts).split("\n"):
            pieces += [*sentences_of(line), "\n"]
        chunks = pack(pieces[:-1], _WORDS if self._t5 else _TOKENS, self._length)
        lines = (chunk.replace(" \n ", "\n").strip() for chunk in chunks)
        return [chunk for chunk in lines if chunk]

    def support(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probability that each chunk supports the claim, [n]."""
        start, end = "predict: " if self._t5 else "", self._model.tokenizer.eos_token
        probs: FloatArray = self._model.read([f"{start}{doc}{end}{claim}" for doc, claim in pairs])
        return probs[:, 1]

    def _length(self, text: str) -> int:
        if self._t5:
            return len(text.split())
        return len(self._model.tokenizer(text, add_special_tokens=False)["input_ids"])


def first_answer(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return the probabilities of both answers as the first token. *Shape:* [n, 2]."""
    start = torch.zeros_like(batch["input_ids"][:, :1])
    logits: Tensor = model(**batch, decoder_input_ids=start).logits[:, 0, list(ANSWERS)]
    return logits.softmax(dim=-1)


NAME = "yaxili96/FactCG-DeBERTa-v3-Large"
QUESTION = (
    "{}\n\nChoose your answer: based on the paragraph above can we conclude that "
    '"{}"?\n\nOPTIONS:\n- Yes\n- No\nI think the answer is '
)
_CHUNK = 550  # words, for FactCG
_WORD = re.compile(r"\w+|[^\w\s]")


class FactCG(Peer):
    """FactCG by the best chunk of the weakest sentence, at .5."""

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self.about = f"FactCG, {model.about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example."""
        sentences = sentences_of("\n".join(example.contexts))
        chunks = pack(sentences, _CHUNK, lambda text: len(_WORD.findall(text)), "\n")
        return score_sentences(example, chunks, self.support)

    def support(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probability that each claim follows from its chunk, [n]."""
        probs: FloatArray = self._model.read([QUESTION.format(*pair) for pair in pairs])
        return probs[:, 1]


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``factcg`` or ``minicheck`` with a folder or hub name.

    For ``minicheck`` also ``roberta``, ``deberta`` and ``flan-t5``.
    """
    if kind == "factcg":
        return FactCG(load_classifier(argument or NAME, _OTHERWISE))
    name = NAMES.get(argument, argument or NAMES["flan-t5"])
    if load_config(name).model_type != "t5":
        longest = _LONGEST.get(load_config(name).model_type, _OTHERWISE)
        return MiniCheck(load_classifier(name, longest))
    model, about = load_pretrained(AutoModelForSeq2SeqLM, name)
    return MiniCheck(TextModel(model, about, load_tokenizer(name), first_answer, _OTHERWISE))
