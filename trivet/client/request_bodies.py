"""Encodes examples as request bodies and groups a stream of them into requests."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from trivet.data.surrogates import replace_surrogates
from trivet.errors import ExampleError
from trivet.records import ContextName, FailedEvaluation, RagExample, to_json_text

MOST_EXAMPLES = 64
MOST_BYTES = 2_000_000
# A request of many long examples could miss its deadline on a server that is quick with each.
_BLOCK_BYTES = 250_000
_FRAME_BYTES = 100  # of the JSON around the examples of a request


@dataclass(frozen=True, slots=True)
class EncodedExample:
    """One example as a JSON object in UTF-8, with the number of lone surrogates replaced in it."""

    id: str | None
    text: bytes
    replaced_characters: int


Given: TypeAlias = RagExample | FailedEvaluation
Examples: TypeAlias = Iterable[Any] | AsyncIterable[Any]
Slot: TypeAlias = EncodedExample | FailedEvaluation
"""One place of a block: an example to send, or the failure to return instead."""


def encode(texts: Mapping[str, object], id_: str | None, most_bytes: int) -> EncodedExample:
    """Encode the texts of an example by field name; unsuitable ones raise an ``ExampleError``."""
    replaced = 0

    def clean(name: str, text: object) -> str:
        nonlocal replaced
        if not isinstance(text, str):
            raise ExampleError(f"{name} must be a string, not {type(text).__name__}")
        cleaned, count = replace_surrogates(text)
        replaced += count
        return cleaned

    record: dict[str, object] = {} if id_ is None else {"id": id_}
    for name, text in texts.items():
        if name != "contexts":
            record[name] = clean(name, text)
        else:
            from trivet.data.logs.context_values import as_passages

            passages, names = as_passages(text)
            cleaned = [clean(f"contexts[{n}]", each) for n, each in enumerate(passages)]
            record[name] = [
                {"text": text} | {k: v for k, v in own._asdict().items() if v} if any(own) else text
                for text, own in itertools.zip_longest(cleaned, names, fillvalue=ContextName())
            ]
    encoded = to_json_text(record).encode()
    if len(encoded) + _FRAME_BYTES > most_bytes:
        raise ExampleError(
            f"the example has {len(encoded)} bytes as JSON, too many for most_bytes={most_bytes}; "
            "send fewer contexts, or raise Client(most_bytes=...) if the server accepts more",
            code="too_large",
        )
    return EncodedExample(id_, encoded, replaced)


def body(json_object: bytes, options: Mapping[str, object]) -> bytes:
    """Return a request body: a JSON object with those options added that are set."""
    chosen = {
        name: value for name, value in options.items() if value is not None and value is not False
    }
    return json_object[:-1] + b", " + to_json_text(chosen).encode()[1:] if chosen else json_object


async def blocks(
    examples: Examples,
    most_examples: int,
    most_bytes: int,
    mapping: Mapping[str, str] | None = None,
) -> AsyncGenerator[list[Slot]]:
    """Group a stream into blocks for one request each; suspends only for an asynchronous one."""
    block: list[Slot] = []
    size = 0
    async with contextlib.aclosing(_read(examples, mapping)) as stream:
        async for example in stream:
            slot = _slot(example, most_bytes)
            length = len(slot.text) if isinstance(slot, EncodedExample) else 0
            if block and size + length > min(_BLOCK_BYTES, most_bytes - _FRAME_BYTES):
                yield block
                block, size = [], 0
            block.append(slot)
            size += length + 2
            if len(block) >= most_examples:
                yield block
                block, size = [], 0
    if block:
        yield block


async def _read(examples: Examples, mapping: Mapping[str, str] | None) -> AsyncGenerator[Given]:
    from trivet.data.logs.rows import RowReader, read_examples

    if isinstance(examples, AsyncIterable):
        reader = RowReader(mapping)
        async for row in examples:
            yield reader.read(row)
    else:
        for example in read_examples(examples, mapping):
            yield example


def _slot(example: Given, most_bytes: int) -> Slot:
    if isinstance(example, FailedEvaluation):
        return example
    if example.context_sentences is not None or example.response_sentences is not None:
        message = "a request cannot hold own sentences; omit them, or use trivet.Evaluator"
        return FailedEvaluation(example.id, "own_sentences", message)
    texts = {name: getattr(example, name) for name in ("question", "contexts", "response")}
    if example.context_names:
        pairs = zip(example.contexts, example.context_names, strict=False)
        texts["contexts"] = [{"text": text, **name._asdict()} for text, name in pairs]
    try:
        return encode(texts, example.id, most_bytes)
    except ExampleError as error:
        return FailedEvaluation.of(error, example.id)
