"""Guarded streams: nothing unsupported passes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Generator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import trivet
from trivet.errors import BackendError, ExampleError
from trivet.integrations.guard import text_of
from trivet.interface import SentenceEvent
from trivet.records import ContextSpan, MarkedSpan

ANSWER = "The mill is old. It is of wood.\n\nThe ferry is red.  "
PIECES = ["The mi", "ll is old. It", " is of wood.\n", "\nThe ferry", " is red. ", " "]


class WoodStream:
    """A judge's stream that finds sentences with the word wood unsupported; one a line or stop."""

    def __init__(self, fails: bool = False) -> None:
        self.text, self.start, self.fails = "", 0, fails

    def feed(self, text: str) -> list[SentenceEvent]:
        if self.fails:
            raise BackendError("it broke")
        self.text += text
        ends = [n + 1 for n, c in enumerate(self.text) if c == "." and self.text[n + 1 :].strip()]
        return [self._event(end) for end in ends if end > self.start]

    def flush(self) -> list[SentenceEvent]:
        return [self._event(len(self.text.rstrip()))] if self.text[self.start :].strip() else []

    def _event(self, end: int) -> SentenceEvent:
        text = self.text[self.start : end].lstrip()
        begin, self.start = end - len(text), end
        supported = "wood" not in text
        spans = () if supported else (MarkedSpan(begin, end, text, 0.9),)
        source = ContextSpan(0, 0, 9)
        return SentenceEvent(begin, end, text, 0.5, supported, spans, source, "Of stone.")


class WoodJudge:
    """A judge whose streams are ``WoodStream``."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.calls: list[Any] = []

    def stream(self, question: str, contexts: Any, **options: Any) -> WoodStream:
        self.calls.append((question, contexts, options))
        return WoodStream(self.fails)


def noted(pieces: list[str], seen: list[str]) -> Generator[str]:
    """Yield pieces; note those that were read, and the end."""
    try:
        for piece in pieces:
            seen.append(piece)
            yield piece
    finally:
        seen.append("closed")


PASSED = {
    "stop": "The mill is old.",
    "mark": "The mill is old. It is of wood. [unsupported]\n\nThe ferry is red.  ",
    "replace": "The mill is old. [A sentence was removed: the sources do not support it.]\n\n"
    "The ferry is red.  ",
}


@pytest.mark.parametrize("action", PASSED)
@pytest.mark.parametrize("pieces", [PIECES, [ANSWER], list(ANSWER)], ids=["pieces", "one", "each"])
def test_what_passes(action: Any, pieces: list[str]) -> None:
    seen: list[str] = []
    source = noted(pieces, seen)
    guarded = trivet.guard(source, "Q?", ["x"], on_unsupported=action, judge=WoodJudge())
    assert "".join(guarded) == PASSED[action]
    assert guarded.stopped is (action == "stop")
    assert seen[-1] == "closed"
    assert [event.supported for event in guarded.events] == [True, False, True][
        : 2 if action == "stop" else 3
    ]
    if action == "stop" and len(pieces) > 1:
        assert len(seen[:-1]) < len(pieces)  # the rest is not even generated


@pytest.mark.parametrize("action", PASSED)
def test_asynchronous_streams_pass_the_same(action: Any) -> None:
    seen: list[str] = []

    async def pieces() -> AsyncIterator[str]:
        with contextlib.closing(noted(PIECES, seen)) as source:
            for piece in source:
                yield piece

    async def run() -> tuple[str, list[str]]:
        source = pieces()
        guarded = trivet.guard(source, "Q?", ["x"], on_unsupported=action, judge=WoodJudge())
        return "".join([piece async for piece in guarded]), list(seen)

    passed, before_the_loop_ends = asyncio.run(run())
    assert passed == PASSED[action]
    assert before_the_loop_ends[-1] == "closed"


def test_no_sentence_passes_before_it_is_judged() -> None:
    guarded = trivet.guard(iter(PIECES), "", ["x"], judge=WoodJudge(), on_unsupported="mark")
    assert next(guarded) == "The mill is old."
    assert guarded.text == "The mill is old. It"
    guarded.close()
    assert list(guarded) == []


@pytest.mark.parametrize("action", ["mark", "replace"])
def test_a_replacement_may_depend_on_the_event(action: Any) -> None:
    def quote(event: SentenceEvent) -> str:
        return f" <{event.source_text}>"

    options: dict[str, Any] = {"on_unsupported": action, "replacement": quote}
    passed = "".join(trivet.guard(PIECES, "", ["x"], judge=WoodJudge(), **options))
    assert passed.count("<Of stone.>") == 1
    assert ("wood" in passed) is (action == "mark")


def test_by_default_unsupported_sentences_are_marked() -> None:
    assert "".join(trivet.guard(PIECES, "", ["x"], judge=WoodJudge())) == PASSED["mark"]


@pytest.mark.parametrize("action", ["stop", "replace"])
@pytest.mark.parametrize(
    "answer", ["Sure! Here is what I found:", "I don't know the price.", "## Price\n\nSure!"]
)
def test_the_embedded_judge_lets_answers_without_a_claim_pass(
    embedded: trivet.Evaluator, action: Any, answer: str
) -> None:
    contexts = ["The mill was built in 1817. It is made of stone."]
    guarded = trivet.guard(
        [answer], "What does it cost?", contexts, on_unsupported=action, judge=embedded
    )
    assert ("".join(guarded), guarded.stopped) == (answer, False)


def test_a_judge_that_fails_lets_nothing_pass() -> None:
    seen: list[str] = []
    source = noted(PIECES, seen)
    guarded = trivet.guard(source, "", ["x"], judge=WoodJudge(fails=True))
    with pytest.raises(BackendError):
        next(guarded)
    assert seen[-1] == "closed"


def test_a_stream_that_breaks_off_raises_its_error_and_passes_no_half_sentence() -> None:
    def broken() -> Iterator[str]:
        yield "The mill is old. It is"
        raise ConnectionError("gone")

    guarded = trivet.guard(broken(), "", ["x"], judge=WoodJudge())
    assert next(guarded) == "The mill is old."
    with pytest.raises(ConnectionError, match="gone"):
        next(guarded)


@pytest.mark.parametrize("stream", ["The mill is old.", 7, None])
def test_what_is_no_stream_is_refused(stream: Any) -> None:
    with pytest.raises(TypeError, match=type(stream).__name__):
        trivet.guard(stream, "", ["x"], judge=WoodJudge())


def test_texts_and_options_reach_the_judge_in_the_order_of_evaluate() -> None:
    judge = WoodJudge()
    trivet.guard([], "Q?", ["x"], judge=judge, windows="all", threshold=0.3)
    assert judge.calls == [("Q?", ["x"], {"windows": "all", "threshold": 0.3})]
    swapped: Any = (["x"], "Q?")
    with pytest.raises(
        TypeError, match=r"not list; the order is guard\(stream, question, contexts"
    ):
        trivet.guard([], *swapped, judge=judge)


def test_an_unknown_action_is_refused() -> None:
    action: Any = "delete"
    with pytest.raises(ValueError, match="'stop', 'mark' or 'replace', got 'delete'"):
        trivet.guard([], "", ["x"], on_unsupported=action, judge=WoodJudge())


def test_the_embedded_bundle_judges_by_default(embedded: trivet.Evaluator) -> None:
    contexts = ["The mill was built in 1817. It is made of stone."]
    answer = "The mill was built in 1817. It is made of wood."
    guarded = trivet.guard(iter(answer.split(" ")), "", contexts, on_unsupported="replace")
    passed = "".join(guarded)
    removed = sum(event.supported is False for event in guarded.events)
    assert passed.count("removed") == removed > 0
    with pytest.raises(ExampleError, match="allow_empty_contexts"):
        trivet.guard([], "", [])


def part(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


@pytest.mark.parametrize(
    ("chunk", "text"),
    [
        ("a b", "a b"),
        (None, ""),
        (part(choices=[part(index=0, delta=part(content="a"))]), "a"),
        (part(choices=[part(index=0, delta=part(content=None))]), ""),
        (part(choices=[part(index=1, delta=part(content="b"))]), ""),
        (part(choices=[]), ""),
        (part(choices=[part(index=0, text="a")]), "a"),
        (part(type="response.output_text.delta", delta="a"), "a"),
        (part(type="response.completed", delta="a"), ""),
        (part(content="a"), "a"),
        (part(content=[{"type": "text", "text": "a"}, "b", {"type": "tool_use"}]), "ab"),
        (part(delta="a", text="all of it"), "a"),
        (part(delta=None), ""),
    ],
    ids=str,
)
def test_the_text_of_chunks(chunk: Any, text: str) -> None:
    assert text_of(chunk) == text


@pytest.mark.parametrize("chunk", [7, b"a", {"answer": "a"}])
def test_an_unknown_chunk_is_refused_with_a_way_out(chunk: Any) -> None:
    with pytest.raises(TypeError, match=rf"{type(chunk).__name__}.*guard\("):
        text_of(chunk)
