"""What is asked again and what is not; pauses; the end of patience."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

import trivet
from tests.client.conftest import EXAMPLES, Answer, Asked, Reset, Running, error
from trivet.client import retrying
from trivet.client.retrying import Problem, Tries, retry_after_seconds
from trivet.records import Evaluation, ServerError


def ask(client: trivet.Client) -> Evaluation:
    example = EXAMPLES[0]
    return client.evaluate(example.question, example.contexts, example.response)


@pytest.mark.parametrize(
    "answer",
    [
        error(429, "overloaded", retry_after="0"),
        error(503, "draining"),
        Answer(503, b"<html>no backend</html>"),
        Reset(),
    ],
    ids=["overloaded", "draining", "proxy", "reset"],
)
def test_what_passes_is_asked_again(
    client: trivet.Client, server: Running, answer: Answer | Reset
) -> None:
    server.served.script.extend([answer, answer])
    assert isinstance(ask(client), Evaluation)
    bodies = [asked.body for asked in server.served.asked]
    assert len(bodies) == 3
    assert len(set(bodies)) == 1


@pytest.mark.parametrize(
    ("answer", "status", "error_type"),
    [
        (error(429, "overloaded"), 429, "overloaded"),
        (error(503, "unhealthy"), 503, "unhealthy"),
        (Reset(), None, "unreachable"),
    ],
    ids=["overloaded", "unhealthy", "reset"],
)
def test_it_is_asked_as_often_as_allowed_and_no_more(
    client: trivet.Client,
    server: Running,
    answer: Answer | Reset,
    status: int | None,
    error_type: str,
) -> None:
    server.served.script.extend([answer] * 3)
    with pytest.raises(ServerError) as caught:
        ask(client)
    assert (caught.value.status, caught.value.error_type) == (status, error_type)
    assert len(server.served.asked) == 3  # retries=2


def test_a_pause_that_the_time_has_no_room_for_is_not_begun(server: Running) -> None:
    server.served.script.append(error(429, "overloaded", retry_after="3600"))
    with (
        trivet.Client(server.url, timeout_seconds=20) as client,
        pytest.raises(ServerError, match="told to be overloaded"),
    ):
        ask(client)
    assert len(server.served.asked) == 1


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else's
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with trivet.Client(url, retries=0) as client:
            assert not client.ready()
            with pytest.raises(ServerError, match="cannot be reached") as caught:
                ask(client)
    assert caught.value.error_type == "unreachable"


def test_an_answer_that_does_not_come_in_time_is_not_asked_for_again(server: Running) -> None:
    go = threading.Event()

    def hang(asked: Asked) -> None:
        go.wait(20)

    server.served.on_request = hang
    try:
        with (
            trivet.Client(server.url, timeout_seconds=0.2) as client,
            pytest.raises(ServerError, match="did not answer in time") as caught,
        ):
            ask(client)
    finally:
        go.set()
    assert caught.value.error_type == "timeout"
    assert len(server.served.asked) <= 1  # on a busy machine it may not even have come


def test_a_client_that_is_closed_waits_for_nothing(server: Running) -> None:
    server.served.script.append(error(429, "overloaded", retry_after="15"))
    client = trivet.Client(server.url)
    server.served.on_request = lambda asked: client._closed.set()
    with pytest.raises(ServerError, match="told to be overloaded"):
        ask(client)
    client.close()


def test_many_examples_end_with_their_error_where_the_client_is_closed(server: Running) -> None:
    server.served.script.append(error(429, "overloaded", retry_after="0"))
    client = trivet.Client(server.url)
    server.served.on_request = lambda asked: client._closed.set()
    with pytest.raises(ServerError, match="told to be overloaded"):
        list(client.evaluate_many([trivet.RagExample("q", ("c",), "r")]))
    client.close()


def test_pauses_double_are_drawn_at_random_and_add_to_what_the_server_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bounds: list[float] = []

    def highest(low: float, high: float) -> float:
        assert low == 0.0
        bounds.append(high)
        return high

    monkeypatch.setattr("random.uniform", highest)
    tries = Tries(retries=8, timeout_seconds=1000)
    problem = Problem(ServerError("full"), passing=True, retry_after_seconds=3.0)
    pauses = [tries.pause_seconds(problem) for _ in range(8)]
    first, longest = retrying.FIRST_PAUSE_SECONDS, retrying.LONGEST_PAUSE_SECONDS
    assert bounds == [min(first * 2**n, longest) for n in range(8)]
    assert bounds[-1] == longest
    assert pauses == [3.0 + bound for bound in bounds]
    with pytest.raises(ServerError, match="full"):
        tries.pause_seconds(problem)


def test_retry_after_may_be_seconds_or_a_date() -> None:
    assert retry_after_seconds("7") == 7.0
    assert retry_after_seconds("0.5") == 0.5
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 3500 < retry_after_seconds(later) <= 3600
    assert 3500 < retry_after_seconds(later.replace("GMT", "-0000")) <= 3600
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    for nothing in (None, "", "soon", "-5", past, "1e999x"):
        assert retry_after_seconds(nothing) == 0.0
