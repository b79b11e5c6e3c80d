"""Judges examples on a server, with the calls of an ``Evaluator``."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from trivet.client.answers import (
    Relevance,
    Result,
    failed,
    read_object,
    read_relevance,
    read_results,
    read_verdict,
    refused,
    unanswered,
)
from trivet.client.retrying import Tries
from trivet.client.sending import (
    MOST_BYTES,
    Blocks,
    Sendable,
    Slot,
    as_passages,
    block_body,
    sendable,
    sendable_question,
    single_body,
)
from trivet.client.settings import ClientSettings
from trivet.records import (
    BackendError,
    Evaluation,
    ExampleError,
    FailedEvaluation,
    RagExample,
    WindowError,
)


class Client:
    """A server's judge. Made once, used from as many threads as you like; close it in the end.

    Attributes:
        settings: What it was made with.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        timeout_seconds: float = 60.0,
        retries: int = 4,
        connections: int = 8,
        *,
        examples_per_request: int = 16,
        most_bytes: int = MOST_BYTES,
        ca_file: Path | str | None = None,
    ) -> None:
        """Say where the server is; nothing is sent yet.

        Args:
            url: Such as ``http://127.0.0.1:8080``; a path before ``/v1`` is kept.
            key: The API key, where the server asks for one.
            timeout_seconds: Time for one request with all its retries and the pauses between them:
                no try begins after it, and each ends where the server is silent for what was left
                when it began.
            retries: How often a request is sent again that was answered with 429 or 503, or whose
                connection was refused or broke before an answer.
            connections: Most connections, and so most requests of ``evaluate_many`` at a time.
            examples_per_request: Most examples that ``evaluate_many`` sends in one request.
            most_bytes: Of one request's body; the server's own limit, if that is another one.
            ca_file: PEM file of the authority that signed the server's certificate; ``None`` takes
                those that the system trusts.

        Raises:
            ValueError: An argument cannot work; it is named.
        """
        self.settings = ClientSettings(
            url,
            key,
            timeout_seconds,
            retries,
            connections,
            examples_per_request,
            most_bytes,
            ca_file,
        )
        self._http = httpx2.Client(**self.settings.pool())
        self._closed = threading.Event()

    def evaluate(
        self,
        question: str,
        contexts: Sequence[str],
        response: str,
        *,
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        allow_empty_contexts: bool = False,
    ) -> Evaluation:
        """Judge one example, as ``Evaluator.evaluate`` does.

        Args:
            question: What was asked; may be empty.
            contexts: The retrieved passages.
            response: The answer; ``""`` asks for relevance alone.
            id: The caller's name for the example; comes back in the verdict.
            allow_empty_contexts: Judge a response against nothing when there are no contexts; the
                context scores are then ``None``.

        Returns:
            The verdict. Lone surrogates show as U+FFFD in its texts.

        Raises:
            ExampleError: The example cannot be judged; ``code`` says why.
            BackendError: The server's engine failed.
            ServerError: There is no verdict for another reason.
        """
        example = RagExample(question, as_passages(contexts), response, id)
        asked = sendable(example, self.settings.most_bytes)
        body = single_body(asked, allow_empty_contexts)
        return read_verdict(self._ask("POST", "/v1/evaluate", body), asked)

    def evaluate_many(
        self,
        examples: Iterable[RagExample | FailedEvaluation],
        *,
        allow_empty_contexts: bool = False,
    ) -> Generator[Evaluation | FailedEvaluation]:
        """Judge a stream of examples, in order, as ``Evaluator.evaluate_many`` does.

        Lazy on both sides: ``connections`` requests are on their way at a time, and no more of the
        stream is read than they hold.

        Args:
            examples: What to judge; what failed before is passed on in its place.
            allow_empty_contexts: As in ``evaluate``.

        Yields:
            The verdict on each example, or why there is none.

        Raises:
            ServerError: The server gives no verdicts; those before were yielded.
        """
        blocks = self._blocks(iter(examples))
        on_their_way: deque[Future[list[Result]]] = deque()
        stop = threading.Event()
        pool = ThreadPoolExecutor(self.settings.connections, thread_name_prefix="trivet-client")
        try:
            more = True
            while more or on_their_way:
                try:
                    block = next(blocks, None) if more else None
                except Exception:
                    # The stream broke off; what was read of it before is answered first.
                    while on_their_way:
                        yield from on_their_way.popleft().result()
                    raise
                more = block is not None
                if block is not None:
                    on_their_way.append(pool.submit(self._judge, block, allow_empty_contexts, stop))
                if on_their_way and (not more or len(on_their_way) >= self.settings.connections):
                    yield from on_their_way.popleft().result()
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def relevance(self, question: str, contexts: Sequence[str]) -> Relevance:
        """Judge the contexts alone, before there is a response.

        Args:
            question: What was asked.
            contexts: The retrieved passages.

        Raises:
            ExampleError: They cannot be judged.
            BackendError: The server's engine failed.
            ServerError: There is no answer for another reason.
        """
        asked = sendable_question(question, contexts, self.settings.most_bytes)
        return read_relevance(self._ask("POST", "/v1/relevance", asked.text))

    def info(self) -> dict[str, Any]:
        """Return what the server says of itself: its bundle, its engine, its limits.

        Raises:
            ServerError: It says nothing.
        """
        return read_object(self._ask("GET", "/v1/info"))

    def ready(self) -> bool:
        """Return whether the server is there and takes requests; asked once, without retries."""
        try:
            response = self._http.get("/health/ready", timeout=self.settings.timeout_seconds)
        except httpx2.TransportError:
            return False
        return response.status_code == httpx2.codes.OK

    def close(self) -> None:
        """Close the connections; requests that wait for another try end with their error."""
        self._closed.set()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _blocks(self, examples: Iterator[RagExample | FailedEvaluation]) -> Iterator[list[Slot]]:
        blocks = Blocks(self.settings.examples_per_request, self.settings.most_bytes)
        for example in examples:
            yield from blocks.add(example)
        yield from blocks.rest()

    def _judge(
        self, block: list[Slot], allow_empty_contexts: bool, stop: threading.Event
    ) -> list[Result]:
        """Return one result for each place of a block."""
        asked = [slot for slot in block if isinstance(slot, Sendable)]
        results = iter(self._results(asked, allow_empty_contexts, stop))
        return [next(results) if isinstance(slot, Sendable) else slot for slot in block]

    def _results(
        self, asked: list[Sendable], allow_empty_contexts: bool, stop: threading.Event
    ) -> list[Result]:
        """Ask for several examples; where they are refused, in halves, to find out which."""
        if not asked:
            return []
        body = block_body(asked, allow_empty_contexts)
        try:
            return read_results(self._ask("POST", "/v1/evaluate", body, stop), asked)
        except BackendError as error:
            return [failed(error, one) for one in asked]
        except (ExampleError, WindowError) as error:
            if len(asked) == 1:
                return [failed(error, asked[0])]
        middle = len(asked) // 2
        return [
            result
            for half in (asked[:middle], asked[middle:])
            for result in self._results(half, allow_empty_contexts, stop)
        ]

    def _ask(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        stop: threading.Event | None = None,
    ) -> httpx2.Response:
        """Return the answer of status 200, after as many tries as it takes and may take."""
        tries = Tries(self.settings.retries, self.settings.timeout_seconds)
        headers = {} if content is None else {"content-type": "application/json"}
        while True:
            try:
                response = self._http.request(
                    method, path, content=content, headers=headers, timeout=tries.seconds_left()
                )
            except httpx2.TransportError as error:
                problem = unanswered(error, self.settings.url)
            else:
                if response.status_code == httpx2.codes.OK:
                    return response
                problem = refused(response)
            stopped = (stop or self._closed).wait(tries.pause_seconds(problem))
            if stopped or self._closed.is_set():
                raise problem.error
