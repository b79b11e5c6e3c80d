"""``/v1/stream``: the events of an answer that is being written."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from tests.judges import until
from tests.serve.http.conftest import Asked, EvenBackend, Serve, Wire
from trivet.errors import BackendError
from trivet.evaluation.evaluator import Evaluator

CONTEXTS = ["The stone bridge was built in 1884. It replaced a ferry.", "The mill is of wood."]
ANSWER = "The bridge was built in 1884. It replaced a ferry. The mill is of stone. It is re"
BODY: dict[str, Any] = {"question": "When?", "contexts": CONTEXTS, "response": ANSWER}


def events_of(answer: httpx2.Response) -> list[tuple[str, Any]]:
    """Read server-sent events as their specification says."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
    assert "content-length" not in answer.headers
    assert answer.text.endswith("\n\n")
    events = []
    for block in answer.text[:-2].split("\n\n"):
        kind, data = block.split("\n")
        events.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def test_a_whole_answer_gives_its_sentences_and_the_verdict(
    server: Asked, embedded: Evaluator
) -> None:
    *sentences, (last, verdict), end = events_of(server.post("/v1/stream", {**BODY, "id": "q"}))
    stream = embedded.stream("When?", CONTEXTS, id="q")
    expected = stream.feed(ANSWER) + stream.flush()
    assert len(expected) == 4
    # The batcher may give a call other threads, which changes the last digits.
    for (kind, event), mine in zip(sentences, expected, strict=True):
        assert kind == "sentence"
        assert event.keys() == mine.to_dict().keys()
        assert (event["text"], event["source_text"]) == (mine.text, mine.source_text)
        assert event["support"] == pytest.approx(mine.support, abs=1e-5)
    assert last == "verdict"
    assert verdict == server.post("/v1/evaluate", {**BODY, "id": "q"}).json()
    assert end == ("end", {"start": len(ANSWER)})


@pytest.mark.parametrize("windows", ["evidence", "all"])
def test_parts_give_the_same_events_as_the_whole(server: Asked, windows: str) -> None:
    options = {"windows": windows, "verdict": False}
    whole = events_of(server.post("/v1/stream", {**BODY, **options}))
    start, streamed = 0, []
    for end in range(7, len(ANSWER) + 7, 7):
        part = {"response": ANSWER[:end], "start": start, "complete": end >= len(ANSWER)}
        *events, last = events_of(server.post("/v1/stream", {**BODY, **options, **part}))
        streamed += events
        start = last[1]["start"]
    assert [*streamed, ("end", {"start": start})] == whole


def test_text_without_a_whole_sentence_gives_no_event(server: Asked) -> None:
    for response in ("", " \n", "The bridge was"):
        part = {**BODY, "response": response, "complete": False}
        assert events_of(server.post("/v1/stream", part)) == [("end", {"start": 0})]


def test_a_failure_after_the_first_event_is_an_event(serve: Serve, backend: EvenBackend) -> None:
    asked = serve(backend=backend)
    run = backend.run

    def fail_later(windows: Any) -> Any:
        if len(backend.calls) == 1:
            raise BackendError("it broke")
        return run(windows)

    backend.run = fail_later  # type: ignore[method-assign]
    first, error = events_of(asked.post("/v1/stream", BODY))
    assert first[0] == "sentence"
    assert error[0] == "error"
    assert error[1].keys() == {"error", "error_type", "request_id"}
    assert error[1]["error_type"] == "backend_failed"


@pytest.mark.parametrize("events", [0, 1])
def test_a_client_that_hangs_up_leaves_nothing_to_run(
    serve: Serve, backend: EvenBackend, events: int
) -> None:
    asked = serve(backend=backend)
    run = backend.run

    def hang(windows: Any) -> Any:
        if len(backend.calls) == events:
            backend.gate.clear()
        return run(windows)

    backend.run = hang  # type: ignore[method-assign]

    async def hang_up() -> list[Any]:
        wire = Wire(json.dumps(BODY).encode())
        asking = asyncio.create_task(wire.post(asked.app, "/v1/stream"))
        await until(lambda: len(backend.calls) > events)
        wire.gone.set()
        await asking
        return wire.sent

    sent = asked.run(hang_up())
    assert sent[0]["status"] == (200 if events else 499)
    assert b"".join(message.get("body", b"") for message in sent).count(b"event: ") == events
    assert asked.batcher.state().requests == 0
    backend.gate.set()
    assert len(backend.calls) == events + 1
