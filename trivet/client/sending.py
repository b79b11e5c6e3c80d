"""Examples as the bytes of requests: each checked and written once, then put together in blocks.

What an ``Evaluator`` refuses before it reads, and what no server is told, is refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from trivet.records import (
    ExampleError,
    FailedEvaluation,
    RagExample,
    replace_surrogates,
    to_json_text,
)

MOST_EXAMPLES = 64
MOST_BYTES = 2_000_000
# A request of many long examples would meet its deadline on a server that is quick with each.
_BLOCK_BYTES = 250_000
_FRAME_BYTES = 100  # what stands around the examples of a request


@dataclass(frozen=True, slots=True)
class Sendable:
    """An example as it stands in a request.

    Attributes:
        id: The caller's name for it.
        text: Its JSON object.
        replaced_characters: How many lone surrogates became U+FFFD: no request can hold them.
    """

    id: str | None
    text: bytes
    replaced_characters: int


Slot: TypeAlias = Sendable | FailedEvaluation
"""One place of a block: what is sent, or why nothing is."""


def sendable(example: RagExample, most_bytes: int = MOST_BYTES) -> Sendable:
    """Write an example as JSON.

    Args:
        example: What is to be judged.
        most_bytes: The longest that is sent.

    Raises:
        ExampleError: It cannot be sent: ``invalid_row``, ``own_sentences`` or ``too_large``.
    """
    if example.context_sentences is not None or example.response_sentences is not None:
        raise ExampleError(
            "the example brings its own sentences, which a server cannot be told; leave them out, "
            "or judge it with trivet.Evaluator",
            code="own_sentences",
        )
    texts = {
        "question": example.question,
        "contexts": example.contexts,
        "response": example.response,
    }
    return _sendable(texts, example.id, most_bytes)


def sendable_question(
    question: str, contexts: Sequence[str], most_bytes: int = MOST_BYTES
) -> Sendable:
    """Write a question and its contexts as JSON; arguments and errors as in ``sendable``."""
    return _sendable({"question": question, "contexts": contexts}, None, most_bytes)


def _sendable(texts: Mapping[str, object], id_: str | None, most_bytes: int) -> Sendable:
    replaced = 0

    def readable(name: str, text: object) -> str:
        nonlocal replaced
        if not isinstance(text, str):
            raise ExampleError(f"{name} must be a string, not {type(text).__name__}")
        plain, count = replace_surrogates(text)
        replaced += count
        return plain

    record: dict[str, object] = {} if id_ is None else {"id": id_}
    for name, text in texts.items():
        if name == "contexts":
            passages = enumerate(as_passages(text))
            record[name] = [readable(f"context {n}", passage) for n, passage in passages]
        else:
            record[name] = readable(name, text)
    written = to_json_text(record).encode()
    if len(written) + _FRAME_BYTES > most_bytes:
        raise ExampleError(
            f"the example has {len(written)} bytes as JSON, more than fit in a request of "
            f"most_bytes={most_bytes}; send fewer contexts, or raise Client(most_bytes=...) where "
            "the server takes more",
            code="too_large",
        )
    return Sendable(id_, written, replaced)


def as_passages(contexts: object) -> tuple[str, ...]:
    """Return contexts as a tuple.

    Raises:
        ExampleError: They are no list; a bare string would be read letter by letter.
    """
    if isinstance(contexts, str | bytes | Mapping) or not isinstance(contexts, Iterable):
        raise ExampleError(
            f"contexts must be a list of passages, not {type(contexts).__name__}; "
            "write contexts=[text]"
        )
    return tuple(contexts)


def single_body(one: Sendable, allow_empty_contexts: bool) -> bytes:
    """Return the body of a request for one example."""
    return one.text[:-1] + b', "allow_empty_contexts": true}' if allow_empty_contexts else one.text


def block_body(examples: Sequence[Sendable], allow_empty_contexts: bool) -> bytes:
    """Return the body of a request for several examples."""
    end = b'], "allow_empty_contexts": true}' if allow_empty_contexts else b"]}"
    return b'{"examples": [' + b", ".join(example.text for example in examples) + end


class Blocks:
    """Gathers a stream of examples into blocks that each make one request."""

    def __init__(self, most_examples: int, most_bytes: int) -> None:
        """Set what one request may hold."""
        self._most_examples = most_examples
        self._most_bytes = most_bytes
        self._block: list[Slot] = []
        self._bytes = 0

    def add(self, example: RagExample | FailedEvaluation) -> Iterator[list[Slot]]:
        """Take one more example; yield the blocks that it fills."""
        slot = self._slot(example)
        size = len(slot.text) if isinstance(slot, Sendable) else 0
        if self._bytes + size > min(_BLOCK_BYTES, self._most_bytes - _FRAME_BYTES):
            yield from self.rest()
        self._block.append(slot)
        self._bytes += size + 2
        if len(self._block) >= self._most_examples:
            yield from self.rest()

    def rest(self) -> Iterator[list[Slot]]:
        """Yield what is gathered, if anything."""
        block, self._block, self._bytes = self._block, [], 0
        if block:
            yield block

    def _slot(self, example: RagExample | FailedEvaluation) -> Slot:
        if isinstance(example, FailedEvaluation):
            return example
        try:
            return sendable(example, self._most_bytes)
        except ExampleError as error:
            return FailedEvaluation.of(error, example.id)
