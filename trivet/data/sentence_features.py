"""Counted features of each response sentence, which support is weighed with.

A small encoder compares numbers and names poorly, and sees only one window. What can be counted
before the pass is counted: the words that a sentence shares with the contexts, and where its values
stand (``value_status``). ``trivet calibrate`` learns what each of them is worth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from trivet.data.lexical_overlap import Overlaps
from trivet.data.tokenization import FloatArray, TokenizedExample
from trivet.data.value_status import ContextValues, FoundValue, find_statuses
from trivet.data.values import VALUE_KINDS

FEATURES: tuple[str, ...] = (
    "lexical_overlap",  # of the sentence with the contexts (``data.lexical_overlap``), in [0, 1]
    "words_nowhere",  # share of its content words that no context has, in [0, 1]
    # number of its values of a kind that only another sentence has, or none; at most 2
    *(f"{kind}_{status}" for kind in VALUE_KINDS for status in ("elsewhere", "nowhere")),
)
"""Names of the features, in order. Support falls with all of them but the first."""
NEAR_SENTENCES = 3
"""Context sentences with which a response sentence shares most words: its sources."""

_MOST_VALUES = 2
_CONTENT_WORD = re.compile(r"[^\W\d_]{4,}")
_STEM = 6  # first letters, in which forms of a word are equal
_FUNCTION_WORDS = frozenset(
    [
        "about",
        "above",
        "after",
        "again",
        "against",
        "also",
        "although",
        "always",
        "among",
        "another",
        "anything",
        "because",
        "been",
        "before",
        "being",
        "below",
        "between",
        "both",
        "cannot",
        "could",
        "does",
        "doing",
        "down",
        "during",
        "each",
        "either",
        "else",
        "even",
        "ever",
        "every",
        "everything",
        "from",
        "further",
        "generally",
        "have",
        "having",
        "here",
        "however",
        "into",
        "itself",
        "just",
        "like",
        "many",
        "more",
        "most",
        "much",
        "must",
        "neither",
        "never",
        "nothing",
        "often",
        "once",
        "only",
        "other",
        "others",
        "over",
        "rather",
        "same",
        "several",
        "should",
        "since",
        "some",
        "something",
        "such",
        "than",
        "that",
        "their",
        "theirs",
        "them",
        "then",
        "there",
        "therefore",
        "these",
        "they",
        "thing",
        "things",
        "this",
        "those",
        "through",
        "thus",
        "under",
        "until",
        "very",
        "were",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "whose",
        "will",
        "with",
        "within",
        "without",
        "would",
        "your",
        "yours",
        "according",
        "based",
        "context",
        "contexts",
        "document",
        "documents",
        "information",
        "mentioned",
        "passage",
        "passages",
        "provided",
        "question",
        "source",
        "sources",
        "text",
        "answer",
    ]
)


def content_words(text: str) -> list[str]:
    """Return the first six letters of the words of over three letters, but function words."""
    words = map(str.lower, _CONTENT_WORD.findall(text))
    return [word[:_STEM] for word in words if word not in _FUNCTION_WORDS]


def share_nowhere(text: str, known: frozenset[str]) -> float:
    """Return the share of a text's content words that are not among ``known``; 0 without any."""
    words = content_words(text)
    return sum(word not in known for word in words) / max(1, len(words))


def words_of(contexts: Sequence[str]) -> frozenset[str]:
    """Return the content words of some contexts."""
    return frozenset(word for context in contexts for word in content_words(context))


def index_contexts(tokenized: TokenizedExample) -> ContextValues:
    """Index the values of the question and the context sentences of an example, and its words."""
    contexts = tokenized.example.contexts
    spans = tokenized.context_sentence_spans
    found = ContextValues.of(
        tokenized.example.question,
        (contexts[span.context][span.start : span.end] for span in spans),
    )
    found.content_words = words_of(contexts)
    return found


def response_values(
    tokenized: TokenizedExample, overlaps: Overlaps, contexts: ContextValues
) -> tuple[tuple[FoundValue, ...], ...]:
    """Return the values of each response sentence, with their status.

    Args:
        tokenized: The example.
        overlaps: Its overlaps, with ``NEAR_SENTENCES`` sources or more.
        contexts: Its contexts, indexed.
    """
    text = tokenized.example.response
    texts = [text[span.start : span.end] for span in tokenized.response_sentence_spans]
    near = [set(row[:NEAR_SENTENCES].tolist()) for row in overlaps.sources]
    return find_statuses(texts, near, contexts)


def count_features(
    tokenized: TokenizedExample,
    overlaps: Overlaps,
    values: Sequence[Sequence[FoundValue]],
    contexts: ContextValues,
) -> FloatArray:
    """Return the features of each response sentence, as ``FEATURES`` has them. *Shape:* [S, F].

    Arguments as of ``response_values``, which returned ``values``.
    """
    spans = tokenized.response_sentence_spans
    found = np.zeros((len(spans), len(FEATURES)), dtype=np.float32)
    if not len(spans):
        return found
    text = tokenized.example.response
    first = np.unique(tokenized.response_sentence, return_index=True)[1]
    found[:, 0] = overlaps.context[first]
    for number, (span, own) in enumerate(zip(spans, values, strict=True)):
        found[number, 1] = share_nowhere(text[span.start : span.end], contexts.content_words)
        counts = Counter(f"{each.value.kind}_{each.status}" for each in own)
        found[number, 2:] = [min(_MOST_VALUES, counts[name]) for name in FEATURES[2:]]
    return found
