"""Answers of a server as records and errors: the same ones that an ``Evaluator`` gives."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import httpx2

from trivet.client.retrying import Problem, retry_after_seconds
from trivet.client.sending import Sendable
from trivet.records import (
    BackendError,
    ContextVerdict,
    DataError,
    Evaluation,
    ExampleError,
    FailedEvaluation,
    ServerError,
    WindowError,
)
from trivet.verdict_json import SCORES, read_evaluation

OVERLOADED, UNAVAILABLE = 429, 503
_ENGINE_ERRORS = ("backend_failed", "non_finite")
_SHOWN_CHARACTERS = 200

Result: TypeAlias = Evaluation | FailedEvaluation
Refusal: TypeAlias = ExampleError | WindowError


@dataclass(frozen=True, slots=True)
class Relevance:
    """How much of the contexts helps to answer a question, before there is a response.

    Attributes:
        relevance: Expected share of the context sentences that help to answer the question.
        contexts: One verdict a context, in order; without utilization.
    """

    relevance: float | None
    contexts: tuple[ContextVerdict, ...]


def unanswered(error: httpx2.TransportError, url: str) -> Problem:
    """Return what it means that no answer came."""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, httpx2.TimeoutException):
        why = ServerError(
            f"{url} did not answer in time ({said}); raise timeout_seconds, or ask for less at a "
            "time",
            error_type="timeout",
        )
        return Problem(why)
    unreachable = ServerError(f"{url} cannot be reached ({said})", error_type="unreachable")
    # Refused, reset, or closed before the answer: what a restart looks like from here.
    passing = isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError)
    return Problem(unreachable, passing and not _is_of_tls(error))


def _is_of_tls(error: BaseException | None) -> bool:
    """Say whether a certificate or a handshake was refused: it will be the next time, too."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None


def refused(response: httpx2.Response) -> Problem:
    """Return what it means that an answer is none of 200."""
    record = _error_record(response)
    status, error_type = response.status_code, record.get("error_type")
    message = record.get("error")
    name = record.get("request_id") or response.headers.get("x-request-id")
    if not isinstance(error_type, str) or not isinstance(message, str):
        shown = response.text[:_SHOWN_CHARACTERS]
        error_type, message = "invalid_answer", f"status {status} with {shown!r}"
    return Problem(
        _error(status, error_type, message, name if isinstance(name, str) else None),
        passing=status in (OVERLOADED, UNAVAILABLE),
        retry_after_seconds=retry_after_seconds(response.headers.get("retry-after")),
    )


def _error_record(response: httpx2.Response) -> Mapping[str, Any]:
    try:
        record = response.json()
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _error(status: int, error_type: str, message: str, request_id: str | None) -> Exception:
    if status == 413:
        return ExampleError(message, code="too_large")
    if status == 422 and error_type == "window":
        return WindowError(message)
    if error_type != "invalid_answer" and (
        status == 422 or (status == 400 and error_type == "invalid_unicode")
    ):
        return ExampleError(message, code=error_type)
    if status == 500 and error_type in _ENGINE_ERRORS:
        return BackendError(message, code=error_type)
    said = f"{message} (status {status}, {error_type}, request {request_id})"
    return ServerError(said, status, error_type, request_id)


def read_object(response: httpx2.Response) -> dict[str, Any]:
    """Return the JSON object of a good answer.

    Raises:
        ServerError: It holds none.
    """
    try:
        record = json.loads(response.content)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise _invalid(response, f"no JSON object but {response.text[:_SHOWN_CHARACTERS]!r}")
    return record


def read_verdict(response: httpx2.Response, asked: Sendable) -> Evaluation:
    """Return the verdict on one example.

    Raises:
        ServerError: The answer holds none.
    """
    try:
        return _verdict(read_object(response), asked)
    except DataError as error:
        raise _invalid(response, str(error)) from error


def read_results(response: httpx2.Response, asked: Sequence[Sendable]) -> list[Result]:
    """Return what was found of several examples.

    Raises:
        ServerError: The answer does not hold one result for each.
    """
    results = read_object(response).get("results")
    if not isinstance(results, list) or len(results) != len(asked):
        raise _invalid(response, f"no list of {len(asked)} results")
    try:
        return [_result(record, one) for record, one in zip(results, asked, strict=True)]
    except DataError as error:
        raise _invalid(response, str(error)) from error


def read_relevance(response: httpx2.Response) -> Relevance:
    """Return the answer to a question about relevance alone.

    Raises:
        ServerError: The answer is another one.
    """
    record = read_object(response)
    try:
        if "relevance" not in record:
            raise DataError("relevance is missing")
        read = read_evaluation({"relevance": record["relevance"], "contexts": record["contexts"]})
    except (DataError, KeyError) as error:
        raise _invalid(response, str(error)) from error
    return Relevance(read.relevance, read.contexts)


def failed(error: Refusal | BackendError, one: Sendable) -> FailedEvaluation:
    """Return the failure that stands in an example's place."""
    if isinstance(error, WindowError):
        return FailedEvaluation(one.id, "window", str(error))
    return FailedEvaluation.of(error, one.id)


def _result(record: object, one: Sendable) -> Result:
    if not isinstance(record, dict):
        raise DataError("a result is no object")
    error = record.get("error")
    if isinstance(error, dict):
        return FailedEvaluation(one.id, str(error.get("code")), str(error.get("message")))
    return _verdict(record, one)


def _verdict(record: Mapping[str, Any], one: Sendable) -> Evaluation:
    missing = [name for name in (*SCORES, "windows") if name not in record]
    if missing:
        raise DataError(f"a verdict has no {', '.join(missing)}")
    verdict = read_evaluation(record)
    if one.replaced_characters:
        # The server saw what was put in their place, and so counted none.
        verdict = replace(verdict, replaced_characters=one.replaced_characters)
    return verdict


def _invalid(response: httpx2.Response, why: str) -> ServerError:
    name = response.headers.get("x-request-id")
    return ServerError(
        f"{response.url} answered as no Trivet server does: {why}",
        response.status_code,
        request_id=name,
    )
