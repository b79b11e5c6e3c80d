"""Synthetic inputs: examples of a given length, a fixed sample of requests, random windows.

Texts consist of a few words drawn with a fixed seed; no row of any data set is used.
"""

from __future__ import annotations

import random

import numpy as np

from trivet.data.sentence_features import FEATURES
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import Windows
from trivet.records import RagExample

PASSAGE_TOKENS = 256
OTHER_TOKENS = 100
_RESPONSE_SHARE = 0.8  # of question and response together
_WORDS = """
    the of and a river bridge stone town was built in year by north old mill water boat keeper lamp
    garden market harbour winter road repaired opened wooden tower visitors museum engine railway
""".split()  # noqa: SIM905 (one word a line would be hard to read)


def build_example(
    tokenizer: SegmentTokenizer, context_tokens: int, other_tokens: int = OTHER_TOKENS
) -> RagExample:
    """Return an example of about the given length; always the same one for a tokenizer."""
    rng = random.Random(0)
    segments = tokenizer.encode([f" {word}" for word in _WORDS])
    cost = dict(zip(_WORDS, map(len, segments), strict=True))

    def text(tokens: int) -> str:
        sentences, words, left = [], [], tokens
        while left > 1:
            word = rng.choice(_WORDS)
            words.append(word)
            left -= cost[word]
            if len(words) == 12 or left <= 1:
                sentences.append(" ".join(words).capitalize() + ".")
                words, left = [], left - 1
        return " ".join(sentences)

    passages, rest = divmod(context_tokens, PASSAGE_TOKENS)
    sizes = [PASSAGE_TOKENS] * passages + ([rest] if rest else [])
    response = round(_RESPONSE_SHARE * other_tokens)
    return RagExample(text(other_tokens - response), tuple(map(text, sizes)), text(response))


def sample_requests(tokenizer: SegmentTokenizer, count: int = 48) -> list[RagExample]:
    """Return a fixed sample of requests with log-normal lengths, as in logs of RAG answers.

    The means are about 800 context tokens and 170 tokens of question and response.
    """
    rng = np.random.default_rng(0)
    contexts = np.exp(rng.normal(6.35, 0.8, size=count)).clip(32, 8000)
    others = np.exp(rng.normal(5.0, 0.5, size=count)).clip(16, 400)
    return [
        build_example(tokenizer, int(context), int(other))
        for context, other in zip(contexts, others, strict=True)
    ]


def full_windows(count: int, length: int, vocabulary: int) -> Windows:
    """Return windows of one example with random ids and no padding."""
    rng = np.random.default_rng(0)
    response = min(80, length // 4)
    context = length - response - 8
    starts = np.arange(count) * length
    shape = (count, length)
    segments = np.zeros(shape, dtype=np.int64)
    segments[:, -response:] = 1
    copies = starts[None, :] + np.arange(length - response, length)[:, None]
    places = (starts[:, None] + np.arange(1, context + 1)[None, :]).reshape(1, -1)
    sentences = (np.arange(response) * 4 // response)[None, :] == np.arange(4)[:, None]
    pool = sentences / sentences.sum(axis=1, keepdims=True)
    return Windows(
        input_ids=rng.integers(5, vocabulary, size=shape),
        attention_mask=np.ones(shape, dtype=np.int64),
        segment_ids=segments,
        response_at=copies[None],
        context_at=places,
        context_weight=np.full(places.shape, 1 / places.size, dtype=np.float32),
        question_overlap=rng.random(places.shape, dtype=np.float32),
        response_overlap=rng.random(places.shape, dtype=np.float32),
        sentence_pool=pool[None].astype(np.float32),
        sentence_features=rng.random((1, 4, len(FEATURES)), dtype=np.float32),
    )
