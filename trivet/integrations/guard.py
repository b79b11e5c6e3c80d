"""Guards a stream of text: no sentence passes before it is judged.

Example: ``for text in trivet.guard(stream, question, contexts): print(text, end="")``
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Sequence
from typing import Any, Literal, overload

from trivet.integrations.judge import default_judge
from trivet.interface import SentenceEvent


def text_of(chunk: Any) -> str:
    """Return the text of a chunk; empty for one that carries none, such as usage or a tool call.

    Known are strings, the chunks of OpenAI's chat completions, completions and responses, the
    message chunks of LangChain, and the responses and events of LlamaIndex.

    Raises:
        TypeError: The chunk is of another kind.
    """
    if chunk is None or isinstance(chunk, str):
        return chunk or ""
    if isinstance(choices := getattr(chunk, "choices", None), list):  # OpenAI, chat or text
        # Further choices are other answers.
        first = next((choice for choice in choices if getattr(choice, "index", 0) == 0), None)
        delta = getattr(first, "delta", None)
        text = getattr(first, "text", None) if delta is None else getattr(delta, "content", None)
        return text or ""
    if isinstance(kind := getattr(chunk, "type", None), str) and kind.startswith("response."):
        return str(chunk.delta) if kind == "response.output_text.delta" else ""
    if hasattr(chunk, "content"):  # LangChain
        content = chunk.content
        blocks = [content] if isinstance(content, str) else content
        return "".join(_block_text(block) for block in blocks)
    if hasattr(chunk, "delta"):  # LlamaIndex
        return chunk.delta or ""
    raise TypeError(
        f"a chunk of type {type(chunk).__name__} has no text that is known; give strings, such as "
        "guard((chunk.text for chunk in stream), ...)"
    )


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    return str(block.get("text", "")) if block.get("type", "text") == "text" else ""


OnUnsupported = Literal["stop", "mark", "replace"]
Replacement = str | Callable[[SentenceEvent], str]

MARK = " [unsupported]"
NOTICE = "[A sentence was removed: the sources do not support it.]"


class _Guarded:
    """State of a guarded stream.

    Attributes:
        text: The text as it came in.
        events: An event for each sentence that was judged.
        stopped: Whether the stream was ended before an unsupported sentence.
    """

    def __init__(self, judge: Any, on_unsupported: OnUnsupported, replacement: Replacement) -> None:
        self.text = ""
        self.events: list[SentenceEvent] = []
        self.stopped = False
        self._judge = judge
        self._action = on_unsupported
        self._replacement = replacement
        self._passed = 0  # characters of the text that were passed on, or replaced

    def _release(self, events: Iterable[SentenceEvent], last: bool = False) -> str:
        """Return the text up to the end of the judged sentences, as it may pass."""
        pieces: list[str] = []
        for event in events:
            self.events.append(event)
            unsupported = event.supported is False
            if unsupported and self._action == "stop":
                self.stopped = True
                return "".join(pieces)
            pieces.append(self.text[self._passed : event.start])
            self._passed = event.end
            if not unsupported or self._action == "mark":
                pieces.append(event.text)
            if unsupported:
                replacement = self._replacement
                pieces.append(replacement if isinstance(replacement, str) else replacement(event))
        if last:  # white space, and sentences without a token
            pieces.append(self.text[self._passed :])
        return "".join(pieces)


class GuardedStream(_Guarded):
    """A guarded iterator of text; see ``guard``."""

    def __init__(self, stream: Iterable[Any], *settings: Any) -> None:
        super().__init__(*settings)
        self._pieces = self._guard(stream)

    def __iter__(self) -> Generator[str]:
        return self._pieces

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """End early; the stream inside is closed, too."""
        self._pieces.close()

    def _guard(self, stream: Iterable[Any]) -> Generator[str]:
        try:
            for chunk in stream:
                text = text_of(chunk)
                self.text += text
                if passed := self._release(self._judge.feed(text) if text else ()):
                    yield passed
                if self.stopped:
                    return
            if passed := self._release(self._judge.flush(), last=True):
                yield passed
        finally:
            if close := getattr(stream, "close", None):
                close()


class AsyncGuardedStream(_Guarded):
    """A guarded asynchronous iterator of text; see ``guard``. The event loop stays free."""

    def __init__(self, stream: AsyncIterable[Any], *settings: Any) -> None:
        super().__init__(*settings)
        self._pieces = self._guard(stream)

    def __aiter__(self) -> AsyncGenerator[str]:
        return self._pieces

    async def __anext__(self) -> str:
        return await anext(self._pieces)

    async def aclose(self) -> None:
        """End early; the stream inside is closed, too."""
        await self._pieces.aclose()

    async def _guard(self, stream: AsyncIterable[Any]) -> AsyncGenerator[str]:
        try:
            async for chunk in stream:
                text = text_of(chunk)
                self.text += text
                if passed := self._release(await self._ask("feed", text) if text else ()):
                    yield passed
                if self.stopped:
                    return
            if passed := self._release(await self._ask("flush"), last=True):
                yield passed
        finally:
            close = getattr(stream, "aclose", None) or getattr(stream, "close", None)
            if close is not None and inspect.isawaitable(closing := close()):
                await closing

    async def _ask(self, method: str, *arguments: str) -> list[SentenceEvent]:
        judge = self._judge
        if hasattr(judge, f"a{method}"):
            events: list[SentenceEvent] = await getattr(judge, f"a{method}")(*arguments)
            return events
        return await asyncio.to_thread(getattr(judge, method), *arguments)


@overload
def guard(
    stream: Iterable[Any],
    question: str,
    contexts: Sequence[Any] | str,
    *,
    on_unsupported: OnUnsupported = "mark",
    replacement: Replacement | None = None,
    judge: Any = None,
    **options: Any,
) -> GuardedStream: ...
@overload
def guard(
    stream: AsyncIterable[Any],
    question: str,
    contexts: Sequence[Any] | str,
    *,
    on_unsupported: OnUnsupported = "mark",
    replacement: Replacement | None = None,
    judge: Any = None,
    **options: Any,
) -> AsyncGuardedStream: ...
def guard(
    stream: Any,
    question: str,
    contexts: Sequence[Any] | str,
    *,
    on_unsupported: OnUnsupported = "mark",
    replacement: Replacement | None = None,
    judge: Any = None,
    **options: Any,
) -> GuardedStream | AsyncGuardedStream:
    """Judge each sentence of a stream of text before it passes.

    A sentence passes when the next one has begun, and the last one at the end of the stream. If the
    judge fails, its error is raised and nothing more passes.

    Args:
        stream: Iterator or asynchronous iterator of strings, or of chunks as OpenAI, LangChain and
            LlamaIndex stream them.
        question: User's question; may be empty.
        contexts: Passages that the answer was made from, as in ``Evaluator.evaluate``.
        on_unsupported: ``mark`` lets an unsupported sentence pass with a mark behind it;
            ``replace`` lets a text pass in its place; ``stop`` ends the stream before the first
            one, and closes it. A sentence without a claim always passes, and so does one that says
            that there is no answer.
        replacement: Mark, or text in its place: a string, or a function of the event. ``None``
            means ``[unsupported]``, or a notice.
        judge: Evaluator or client; ``None`` uses the embedded bundle.
        options: Further arguments of the judge's ``stream``, such as ``windows``.

    Returns:
        An iterator of the text that passes, asynchronous if ``stream`` is. Its ``events``,
        ``stopped`` and ``text`` tell what was found.

    Raises:
        ExampleError: The question or the contexts cannot be evaluated.
        TypeError: ``stream`` is not an iterator of text, or ``question`` is not a string.
        ValueError: ``on_unsupported`` is unknown.
    """
    if on_unsupported not in ("stop", "mark", "replace"):
        raise ValueError(
            f"on_unsupported must be 'stop', 'mark' or 'replace', got {on_unsupported!r}"
        )
    if isinstance(stream, str) or not isinstance(stream, Iterable | AsyncIterable):
        raise TypeError(
            f"stream must be an iterator of text, not {type(stream).__name__}; for a whole answer "
            "use Evaluator.evaluate or Evaluator.correct"
        )
    if not isinstance(question, str):
        raise TypeError(
            f"question must be a string, not {type(question).__name__}; the order is "
            "guard(stream, question, contexts)"
        )
    chosen: Any = judge or default_judge()
    judged = chosen.stream(question, contexts, **options)
    default = MARK if on_unsupported == "mark" else NOTICE
    settings = (judged, on_unsupported, default if replacement is None else replacement)
    if isinstance(stream, AsyncIterable):
        return AsyncGuardedStream(stream, *settings)
    return GuardedStream(stream, *settings)
