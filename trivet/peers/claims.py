"""Claims against passages: sentences of a response scored by their best passage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trivet.data.sentences import split_sentences
from trivet.errors import ConfigError, ExampleError
from trivet.peers.peer import PeerScore
from trivet.records import RagExample, Span

if TYPE_CHECKING:  # it imports torch, which peers that ask an LLM do without
    from trivet.peers.local_model import FloatArray

_SUPPORTED = 0.5  # score of a sentence or a response


def read_options(peer: str, argument: str, defaults: dict[str, str]) -> dict[str, str]:
    """Read ``key=value:key=value`` over defaults; a part without ``=`` is the first key's value.

    Raises:
        ConfigError: A key is unknown.
    """
    options = dict(defaults)
    for part in filter(None, argument.split(":")):
        key, equals, value = part.partition("=")
        if not equals:
            key, value = next(iter(defaults)), part
        if key not in defaults:
            raise ConfigError(
                f"peer {peer}:{argument}: no option {key!r}; there are {', '.join(defaults)}"
            )
        options[key] = value
    return options


def require_response(example: RagExample) -> None:
    """Raise an ``ExampleError`` if the response is empty."""
    if not example.response.strip():
        raise ExampleError("the response is empty", "empty_response")


def response_spans(example: RagExample) -> tuple[Span, ...]:
    """Return the sentences of the response, or raise an ``ExampleError`` without any."""
    require_response(example)
    return example.response_sentences or split_sentences(example.response)


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[span.start : span.end] for span in split_sentences(text)]


def context_sentences(example: RagExample) -> list[str]:
    """Return the sentences of all contexts in order, or raise an ``ExampleError`` without any."""
    spans = example.context_sentences or tuple(map(split_sentences, example.contexts))
    sentences = [
        text[span.start : span.end]
        for text, each in zip(example.contexts, spans, strict=True)
        for span in each
    ]
    if not sentences:
        raise ExampleError("the contexts are empty", "empty_contexts")
    return sentences


def pack(
    pieces: Sequence[str], limit: int, length: Callable[[str], int], join: str = " "
) -> list[str]:
    """Join consecutive pieces to chunks of at most ``limit``; a longer piece is one of its own."""
    chunks: list[list[str]] = []
    room = -1
    for piece in pieces:
        size = length(piece)
        if size > room:
            chunks.append([])
            room = limit
        chunks[-1].append(piece)
        room -= size
    return [join.join(chunk) for chunk in chunks]


def score_sentences(
    example: RagExample,
    chunks: Sequence[str],
    support: Callable[[Sequence[tuple[str, str]]], FloatArray],
) -> PeerScore:
    """Score each response sentence by its best chunk, and the response by its weakest sentence.

    Args:
        example: The example.
        chunks: Texts of the contexts.
        support: Returns the probability of support for each pair of chunk and sentence, [n].
    """
    spans = response_spans(example)
    if not chunks:
        raise ExampleError("the contexts are empty", "empty_contexts")
    texts = [example.response[span.start : span.end] for span in spans]
    probs = support([(chunk, text) for text in texts for chunk in chunks])
    best = probs.reshape(len(texts), len(chunks)).max(axis=1)
    return PeerScore.at(
        _SUPPORTED,
        float(best.min()),
        spans=tuple(span for span, prob in zip(spans, best, strict=True) if prob < _SUPPORTED),
    )
