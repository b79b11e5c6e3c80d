"""Evaluates examples on a server, with the methods of ``Evaluator``."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Self, Unpack

import httpx2

from trivet.client.async_client import AsyncAnswerStream
from trivet.client.messages import MAX_BYTES, Relevance, Slot
from trivet.client.requester import ClientSettings, Requester, Wait, run
from trivet.interface import Options, Result, Results, SentenceEvent, checked, takes_options
from trivet.records import Evaluation, FailedEvaluation


class Client:
    """Client of a server. Safe to use from several threads; close it after use."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        timeout_seconds: float = 60.0,
        retries: int = 4,
        connections: int = 8,
        *,
        examples_per_request: int = 16,
        max_bytes: int = MAX_BYTES,
        ca_file: Path | str | None = None,
    ) -> None:
        """Set up a client; sends nothing yet.

        Args:
            url: Address such as ``http://127.0.0.1:8080``; a path before ``/v1`` is kept.
            key: API key, if the server requires one.
            timeout_seconds: Time for one request with all its retries and pauses. No try begins
                later, and a try fails after as much silence as was left when it began.
            retries: Most repetitions of a request that was answered with 429 or 503, or whose
                connection was refused or broke before the answer.
            connections: Most connections, and so most concurrent requests of ``evaluate_many``.
            examples_per_request: Most examples per request of ``evaluate_many``, from 1 to 64.
            max_bytes: Most bytes of a request body; the server's own limit, if it differs.
            ca_file: PEM file of the authority that signed the server's certificate; ``None`` uses
                the authorities that the system trusts.

        Raises:
            ValueError: An argument is invalid; the message names it.
        """
        limits = (timeout_seconds, retries, connections, examples_per_request, max_bytes)
        self.settings = ClientSettings(url, key, *limits, ca_file)
        self._http = httpx2.Client(**self.settings.http_arguments())
        self._closed = threading.Event()
        self._requester = self._requester_until(self._closed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments: the copy opens its own connections."""
        return functools.partial(type(self), **dataclasses.asdict(self.settings)), ()

    @takes_options
    def evaluate(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        response: str,
        *,
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> Evaluation:
        """Evaluate one example; arguments and errors as in ``Evaluator.evaluate``.

        Returns:
            The verdict. Lone surrogates appear as U+FFFD in its texts.

        Raises:
            ServerError: The server gave no verdict, for a reason that is not in the example.
        """
        texts = {"question": question, "contexts": contexts, "response": response}
        return run(self._requester.evaluate(texts, id, checked(options)))

    @takes_options
    def evaluate_many(
        self,
        examples: Iterable[Any],
        *,
        mapping: Mapping[str, str] | None = None,
        progress: bool = False,
        **options: Unpack[Options],
    ) -> Results:
        """Evaluate a stream of examples, in order, as ``Evaluator.evaluate_many`` does.

        Lazy: at most ``connections`` requests run at a time, and no more examples are read than
        they hold.

        Raises:
            ServerError: The server gave no verdicts; earlier results were yielded.
        """
        from trivet.logs.rows import count_rows, read_examples

        read = read_examples(examples, mapping)
        results = self._results(read, checked(options))
        return Results(results, count_rows(examples), progress)

    def _results(
        self, examples: Iterable[Any], options: Mapping[str, object]
    ) -> Generator[Evaluation | FailedEvaluation]:
        stop = threading.Event()
        requester = self._requester_until(stop)
        pool = ThreadPoolExecutor(self.settings.connections, thread_name_prefix="trivet-client")

        def begin(block: list[Slot]) -> Wait:
            future = pool.submit(lambda: run(requester.evaluate_block(block, options)))

            async def wait() -> list[Result]:
                return future.result()

            return wait

        results = requester.evaluate_many(examples, None, begin)
        try:
            while (result := run(anext(results, None))) is not None:
                yield result
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            run(results.aclose())

    @takes_options
    def stream(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        *,
        windows: Literal["evidence", "all"] = "evidence",
        id: str | None = None,  # noqa: A002 (the field's name in every record)
        **options: Unpack[Options],
    ) -> AnswerStream:
        """Begin to judge an answer while it is written, like ``Evaluator.stream``.

        Each request holds the contexts and the text so far, so any server can answer it. Wrong
        contexts are refused at the first sentence.
        """
        return AnswerStream(
            AsyncAnswerStream(self._requester, question, contexts, windows, id, checked(options))
        )

    def relevance(self, question: str, contexts: Sequence[Any] | str) -> Relevance:
        """Score contexts without a response; arguments and errors as in ``evaluate``."""
        return run(self._requester.relevance(question, contexts))

    def info(self) -> dict[str, Any]:
        """Return the server's description: its bundle, backend and limits."""
        return run(self._requester.info())

    def ready(self) -> bool:
        """Return whether the server can be reached and accepts requests; does not retry."""
        return run(self._requester.ready())

    def close(self) -> None:
        """Close the connections; requests that wait for a retry fail with their last error."""
        self._closed.set()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _requester_until(self, stop: threading.Event) -> Requester:
        """Return a requester whose pauses end early when ``stop`` is set."""

        async def send(**request: Any) -> httpx2.Response:
            return self._http.request(**request)

        async def pause(seconds: float, error: Exception) -> None:
            if stop.wait(seconds) or self._closed.is_set():
                raise error

        return Requester(self.settings, send, pause)


class AnswerStream:
    """``AsyncAnswerStream`` without an event loop; made by ``Client.stream``."""

    def __init__(self, stream: AsyncAnswerStream) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        """The text so far."""
        return self._stream.text

    def feed(self, text: str) -> list[SentenceEvent]:
        """Append a piece of text and judge what it completes, as ``AsyncAnswerStream.afeed``."""
        return run(self._stream.afeed(text))

    def flush(self) -> list[SentenceEvent]:
        """Judge the rest of the text as it is."""
        return run(self._stream.aflush())

    def close(self) -> Evaluation:
        """Evaluate all of the text; later calls return the same verdict."""
        return run(self._stream.aclose())
