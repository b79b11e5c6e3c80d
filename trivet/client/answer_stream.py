"""Judges an answer on a server while it is written, with the methods of `Evaluator.stream`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trivet.client.requester import Requester, run
from trivet.errors import ExampleError
from trivet.events import SentenceEvent
from trivet.records import Evaluation


class AsyncAnswerStream:
    """Judges an answer while it is written; made by ``AsyncClient.stream``.

    Every request holds the contexts and the text so far: the server remembers nothing. None is
    sent for a piece that completes no sentence.
    """

    def __init__(
        self,
        requester: Requester,
        question: str,
        contexts: Sequence[Any] | str,
        windows: str,
        id_: str | None,
        options: Mapping[str, object],
    ) -> None:
        from trivet.data.sentences import GrowingText

        self._growing = GrowingText()
        self._requester = requester
        self._texts = {"question": question, "contexts": contexts}
        self._windows = windows
        self._id = id_
        self._given = options
        self._verdict: Evaluation | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return self._growing.text

    async def afeed(self, text: str) -> list[SentenceEvent]:
        """Append a piece of text and judge what it completes, as ``AnswerStream.feed``.

        Raises:
            ExampleError: The piece is no string, or the question or contexts cannot be evaluated.
            BackendError: The server's backend failed.
            ServerError: The server gave no answer for another reason.
            ValueError: The stream is closed.
        """
        self._check_open()
        if not isinstance(text, str):
            raise ExampleError(f"a piece of text must be a string, not {type(text).__name__}")
        start = self._growing.start
        return await self._judge(start, False) if self._growing.append(text) else []

    async def aflush(self) -> list[SentenceEvent]:
        """Judge the rest of the text as it is; errors as in ``afeed``."""
        self._check_open()
        start = self._growing.start
        return await self._judge(start, True) if self._growing.rest() else []

    async def aclose(self) -> Evaluation:
        """Evaluate all of the text; later calls return the same verdict."""
        if self._verdict is None:
            texts = {**self._texts, "response": self.text}
            self._verdict = await self._requester.evaluate(texts, self._id, self._given)
        return self._verdict

    async def _judge(self, start: int, complete: bool) -> list[SentenceEvent]:
        texts = {**self._texts, "response": self.text}
        options = {
            "start": start,
            "complete": complete,
            "verdict": False,
            "windows": self._windows,
            **self._given,
        }
        return await self._requester.sentences(texts, options)

    def _check_open(self) -> None:
        if self._verdict is not None:
            raise ValueError("the stream is closed; begin another one with stream()")


class AnswerStream:
    """The same for ``Client.stream``, without an event loop."""

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
