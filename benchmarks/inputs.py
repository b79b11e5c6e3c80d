"""Synthetic inputs: examples of a given length, and a fixed sample of requests.

Texts consist of a few words drawn with a fixed seed; no row of any data set is used.
"""

from __future__ import annotations

import random

import numpy as np

from trivet.data.tokenization import SegmentTokenizer
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
