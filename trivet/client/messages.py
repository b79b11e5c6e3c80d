"""Requests as bytes, and answers as results or as the errors of an ``Evaluator``."""

from __future__ import annotations

import contextlib
import itertools
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import httpx2

from trivet.errors import BackendError, DataError, ExampleError, ServerError, WindowError
from trivet.interface import Result, SentenceEvent, replace_surrogates
from trivet.records import (
    ContextName,
    ContextVerdict,
    Evaluation,
    FailedEvaluation,
    RagExample,
    to_json_text,
)
from trivet.verdict_json import SCORES, read_evaluation, read_event

MAX_EXAMPLES = 64
MAX_BYTES = 2_000_000
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


def encode(texts: Mapping[str, object], id_: str | None, max_bytes: int) -> EncodedExample:
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
            from trivet.logs.context_values import as_passages

            passages, names = as_passages(text)
            cleaned = [clean(f"contexts[{n}]", each) for n, each in enumerate(passages)]
            record[name] = [
                {"text": text} | {k: v for k, v in own._asdict().items() if v} if any(own) else text
                for text, own in itertools.zip_longest(cleaned, names, fillvalue=ContextName())
            ]
    encoded = to_json_text(record).encode()
    if len(encoded) + _FRAME_BYTES > max_bytes:
        raise ExampleError(
            f"the example has {len(encoded)} bytes as JSON, too many for max_bytes={max_bytes}; "
            "send fewer contexts, or raise Client(max_bytes=...) if the server accepts more",
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
    max_examples: int,
    max_bytes: int,
    mapping: Mapping[str, str] | None = None,
) -> AsyncGenerator[list[Slot]]:
    """Group a stream into blocks for one request each; suspends only for an asynchronous one."""
    block: list[Slot] = []
    size = 0
    async with contextlib.aclosing(_read(examples, mapping)) as stream:
        async for example in stream:
            slot = _slot(example, max_bytes)
            length = len(slot.text) if isinstance(slot, EncodedExample) else 0
            if block and size + length > min(_BLOCK_BYTES, max_bytes - _FRAME_BYTES):
                yield block
                block, size = [], 0
            block.append(slot)
            size += length + 2
            if len(block) >= max_examples:
                yield block
                block, size = [], 0
    if block:
        yield block


async def _read(examples: Examples, mapping: Mapping[str, str] | None) -> AsyncGenerator[Given]:
    from trivet.logs.rows import RowReader, read_examples

    if isinstance(examples, AsyncIterable):
        reader = RowReader(mapping)
        async for row in examples:
            yield reader.read(row)
    else:
        for example in read_examples(examples, mapping):
            yield example


def _slot(example: Given, max_bytes: int) -> Slot:
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
        return encode(texts, example.id, max_bytes)
    except ExampleError as error:
        return FailedEvaluation.of(error, example.id)


_SHOWN_CHARACTERS = 200

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Relevance:
    """Relevance of contexts to a question, before there is a response.

    Attributes:
        relevance: Expected share of the context sentences that help to answer the question.
        contexts: One verdict per context, in order, without utilization.
    """

    relevance: float | None
    contexts: tuple[ContextVerdict, ...]


class Problem(NamedTuple):
    """Error of a failed try, and the pause the server asks for; ``None`` if a retry cannot help."""

    error: Exception
    retry_after_seconds: float | None


def transport_problem(error: httpx2.TransportError, url: str) -> Problem:
    """Return the problem of a try that got no answer."""
    cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        message = f"{url} did not answer in time ({cause}); raise timeout_seconds, or send less"
        return Problem(ServerError(message, error_type="timeout"), None)
    # Refused, reset or closed before the answer, as during a restart; TLS errors stay.
    temporary = isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError)
    unreachable = ServerError(f"{url} cannot be reached ({cause})", error_type="unreachable")
    return Problem(unreachable, 0.0 if temporary and not _is_tls_error(error) else None)


def _is_tls_error(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None


def status_problem(response: httpx2.Response) -> Problem:
    """Return the problem of an answer with a status other than 200."""
    record, status = _json_object(response) or {}, response.status_code
    error_type, message = record.get("error_type"), record.get("error")
    if not isinstance(error_type, str) or not isinstance(message, str):
        shown = response.text[:_SHOWN_CHARACTERS]
        error_type, message = "invalid_answer", f"status {status} with {shown!r}"
    name = record.get("request_id") or response.headers.get("x-request-id")
    request_id = name if isinstance(name, str) else None
    error: Exception
    if status == 413:
        error = ExampleError(message, code="too_large")
    elif (status, error_type) == (422, "window"):
        error = WindowError(message)
    elif (status, error_type) == (400, "invalid_unicode") or (
        status == 422 and error_type != "invalid_answer"
    ):
        error = ExampleError(message, code=error_type)
    elif status == 500 and error_type in ("backend_failed", "non_finite"):
        error = BackendError(message, code=error_type)
    else:
        full = f"{message} (status {status}, {error_type}, request {request_id})"
        error = ServerError(full, status, error_type, request_id)
    if status not in (429, 503):
        return Problem(error, None)
    return Problem(error, retry_after_seconds(response.headers.get("retry-after")))


def retry_after_seconds(header: str | None) -> float:
    """Return the pause in a ``Retry-After`` header in seconds; 0 for anything else."""
    text = (header or "").strip()
    try:
        return float(text) if text[:1].isdigit() else 0.0
    except ValueError:
        return 0.0


def read_answer(response: httpx2.Response, read: Callable[[dict[str, Any]], Read]) -> Read:
    """Read the JSON object of an answer with status 200; its faults raise a ``ServerError``."""
    try:
        record = _json_object(response)
        if record is None:
            raise DataError(f"not a JSON object: {response.text[:_SHOWN_CHARACTERS]!r}")
        return read(record)
    except DataError as error:
        message = f"{response.url} does not answer like a Trivet server: {error}"
        request_id = response.headers.get("x-request-id")
        raise ServerError(message, response.status_code, request_id=request_id) from error


def _json_object(response: httpx2.Response) -> dict[str, Any] | None:
    try:
        record = response.json()
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def read_sentences(response: httpx2.Response) -> list[SentenceEvent]:
    """Return the events of ``/v1/stream``.

    Raises:
        BackendError: The server's backend failed after the first event.
        ServerError: The server failed after it, or the stream of events is incomplete.
    """
    sentences = []
    try:
        for event in response.text.split("\n\n"):
            kind, _, data = event.partition("\ndata: ")
            record = json.loads(data) if data else {}
            if kind == "event: sentence":
                sentences.append(read_event(record))
            elif kind == "event: end":
                return sentences
            elif kind == "event: error":
                error_type, message = str(record["error_type"]), str(record["error"])
                if error_type in ("backend_failed", "non_finite"):
                    raise BackendError(message, code=error_type)
                raise ServerError(message, None, error_type, str(record["request_id"]))
        raise DataError("the events break off")
    except (ValueError, KeyError, TypeError) as error:
        message = f"{response.url} does not answer like a Trivet server: {error}"
        raise ServerError(message, response.status_code) from error


def read_verdict(record: Mapping[str, Any], example: EncodedExample) -> Evaluation:
    """Return the verdict on an example, or raise a ``DataError``."""
    _require(record, (*SCORES, "windows"))
    verdict = read_evaluation(record)
    if example.replaced_characters:  # the server only saw the replacements
        verdict = replace(verdict, replaced_characters=example.replaced_characters)
    return verdict


def read_results(record: Mapping[str, Any], examples: Sequence[EncodedExample]) -> list[Result]:
    """Return one result per example, or raise a ``DataError``."""
    results = record.get("results")
    if not isinstance(results, list) or len(results) != len(examples):
        raise DataError(f"not a list of {len(examples)} results")
    read: list[Result] = []
    for result, example in zip(results, examples, strict=True):
        if not isinstance(result, dict):
            raise DataError("a result is not an object")
        if isinstance(error := result.get("error"), dict):
            code, message = str(error.get("code")), str(error.get("message"))
            read.append(FailedEvaluation(example.id, code, message))
        else:
            read.append(read_verdict(result, example))
    return read


def read_relevance(record: Mapping[str, Any]) -> Relevance:
    """Return the answer to a relevance request, or raise a ``DataError``."""
    _require(record, ("relevance", "contexts"))
    read = read_evaluation({name: record[name] for name in ("relevance", "contexts")})
    return Relevance(read.relevance, read.contexts)


def _require(record: Mapping[str, Any], names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in record]:
        raise DataError(f"the answer has no {', '.join(missing)}")
