"""Verdicts on an answer while it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.evaluation.sentence_reader import PendingSentence, SentenceReader
from trivet.events import SentenceEvent
from trivet.records import Evaluation


class AnswerStream:
    """Judges an answer while it is written; made by ``Evaluator.stream``. For one thread.

    The contexts are tokenized once. Events do not depend on how the text is cut into pieces.
    """

    def __init__(
        self, reader: SentenceReader, evaluate: Callable[[PreprocessedExample], Evaluation]
    ) -> None:
        self._reader = reader
        self._evaluate = evaluate
        self._verdict: Evaluation | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return self._reader.text

    def feed(self, text: str) -> list[SentenceEvent]:
        """Append a piece of text, as long or short as it comes, and judge what it completes.

        A sentence is complete when the next one has begun.

        Returns:
            An event for each sentence that the piece completes; often none.

        Raises:
            ExampleError: The piece is no string, or the text becomes too long.
            BackendError: The backend failed, or the bundle has no support head.
            ValueError: The stream is closed.
        """
        self._check_open()
        return self._judge(self._reader.feed(text))

    def flush(self) -> list[SentenceEvent]:
        """Judge the rest of the text as it is, even if it ends in mid-word; errors as in ``feed``.

        Text that is fed later begins a new sentence.
        """
        self._check_open()
        return self._judge(self._reader.flush())

    def close(self) -> Evaluation:
        """Evaluate all of the text; later calls return the same verdict.

        Returns:
            The verdict of ``Evaluator.evaluate`` on the whole text, to the bit.
        """
        if self._verdict is None:
            self._verdict = self._evaluate(self._reader.whole())
        return self._verdict

    async def afeed(self, text: str) -> list[SentenceEvent]:
        """Do as ``feed``, in a thread: the event loop stays free."""
        return await asyncio.to_thread(self.feed, text)

    async def aflush(self) -> list[SentenceEvent]:
        """Do as ``flush``, in a thread."""
        return await asyncio.to_thread(self.flush)

    async def aclose(self) -> Evaluation:
        """Do as ``close``, in a thread."""
        return await asyncio.to_thread(self.close)

    def _check_open(self) -> None:
        if self._verdict is not None:
            raise ValueError("the stream is closed; begin another one with stream()")

    def _judge(self, sentences: list[PendingSentence]) -> list[SentenceEvent]:
        # One call for each: a sentence's verdict does not depend on the others of its piece.
        return [each.event(self._evaluate(each.prepared)) for each in sentences]
