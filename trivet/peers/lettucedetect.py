"""LettuceDetect: a token classifier that reads all passages and marks what they do not support.

Kovács and Recski, arXiv 2502.17125; input and output as in ``detectors/transformer.py`` of
lettucedetect 0.2.3 (MIT): passages that do not fit are grouped, and a token is hallucinated if it
is so in **any** group. `trivet.integrations.lettucedetect` is the other way round: our spans in
their form.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from transformers import AutoModelForTokenClassification

from trivet.errors import ExampleError
from trivet.peers.claims import require_response
from trivet.peers.llm_peer import render
from trivet.peers.local_model import FloatArray, class_probs, load_pretrained, load_tokenizer, run
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample, Span

NAME = "KRLabsOrg/lettucedect-base-modernbert-en-v1"
_LONGEST = 4096
_SPECIAL = 3  # tokens around prompt and response


class LettuceDetect(Peer):
    """LettuceDetect; the response is as faithful as its most suspicious token, flagged below .5."""

    def __init__(self, model: Any, about: str, tokenizer: Any, longest: int = _LONGEST) -> None:
        self._model, self._tokenizer, self._longest = model, tokenizer, longest
        self.about = f"LettuceDetect, {about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example."""
        require_response(example)
        if (size := self._count(example.response)) >= self._longest - _SPECIAL:
            raise ExampleError(
                f"the response has {size} tokens, and the window {self._longest}", "too_long"
            )
        read = [self._read(group, example) for group in self.groups(example)]
        probs = np.max([probs for _, probs in read], axis=0)
        offsets = read[0][0]
        found = []
        for marked, tokens in groupby(range(len(probs)), key=lambda at: bool(probs[at] > 0.5)):
            if marked:
                places = [offsets[at] for at in tokens]
                found.append(Span(int(places[0][0]), int(places[-1][1])))
        return PeerScore(float(1 - probs.max()), hallucinated=bool(found), spans=tuple(found))

    def groups(self, example: RagExample) -> list[list[str]]:
        """Return the passages in groups that fit a window with the question and the response."""
        whole = list(example.contexts)
        room = self._longest - self._count(example.response) - _SPECIAL
        space = room - self._count(prompt_of([""], example.question))
        if self._count(prompt_of(whole, example.question)) <= room or space <= 0:
            return [whole]
        groups: list[list[str]] = []
        left = -1
        for number, passage in enumerate(whole, start=1):
            size = self._count(f"passage {number}: {passage}")
            if size + 1 > left or not groups:
                groups.append([])
                left = space + 1
            groups[-1].append(passage)
            left -= size + 1
        return groups

    def _read(self, passages: Sequence[str], example: RagExample) -> tuple[Any, FloatArray]:
        """Return the offsets of the response's tokens and their P(hallucinated)."""
        batch = self._tokenizer(
            prompt_of(passages, example.question),
            example.response,
            truncation="only_first",
            max_length=self._longest,
            return_offsets_mapping=True,
            return_tensors="pt",
        )
        offsets = batch.pop("offset_mapping")[0].numpy()
        own = np.array([part == 1 for part in batch.sequence_ids(0)])
        own &= offsets[:, 0] < offsets[:, 1]
        return offsets[own], run(self._model, class_probs, batch)[0][own, 1]

    def _count(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])


def prompt_of(passages: Sequence[str], question: str) -> str:
    """Return the text before the response, for a question or without one for a summary."""
    listed = "\n".join(f"passage {n}: {text}" for n, text in enumerate(passages, start=1))
    values = {"passages": passages, "listed": listed, "question": question}
    return render("lettucedetect", values)[0]["content"]


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``lettucedetect`` with a folder or hub name."""
    name = argument or NAME
    model, about = load_pretrained(AutoModelForTokenClassification, name)
    return LettuceDetect(model, about, load_tokenizer(name))
