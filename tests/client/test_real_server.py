"""A client against the server itself, with the embedded bundle: the verdicts of an evaluator."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import trivet
from trivet.client.retrying import Problem, Tries
from trivet.records import Evaluation, ExampleError, FailedEvaluation, RagExample, ServerError
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.running_server import RunningServer, bind
from trivet.serve.http.settings import ServerSettings

TLS = Path(__file__).parents[1] / "serve" / "http" / "tls"
EXAMPLES = [
    RagExample("When was the mill built?", ("The mill was built in 1817.",), "In 1817.", "a"),
    RagExample("Who keeps it?", ("No keeper since 1931.", "Bread."), "Jonas does. Yes.", "b"),
    RagExample("", ("North of the town.",), "", "c"),
    RagExample("Where?", (), "Here.", "d"),
    RagExample("Warum\x00?", ("Weil 🌉 \u202e es so ist.",) * 3, "Weil \ud800 es so ist.", "e"),
]


@dataclass
class Served:
    """A server that runs in another thread."""

    url: str
    server: RunningServer
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event


@contextmanager
def serving(
    evaluator: trivet.Evaluator, settings: ServerSettings, keys: KeyRing | None = None
) -> Iterator[Served]:
    """Run a server on a free port of this machine, in an event loop of its own."""
    up: Future[Served] = Future()

    async def run() -> None:
        server, stop = RunningServer(evaluator, settings, keys), asyncio.Event()
        with bind("127.0.0.1", 0) as listening:
            try:
                await server.start(listening)
            except BaseException as error:
                up.set_exception(error)
            else:
                up.set_result(Served(server.url, server, asyncio.get_running_loop(), stop))
                await stop.wait()
            await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    served = up.result(60)
    try:
        yield served
    finally:
        served.loop.call_soon_threadsafe(served.stop.set)
        thread.join()


@pytest.fixture(scope="module")
def url(embedded: trivet.Evaluator) -> Iterator[str]:
    with serving(embedded, ServerSettings()) as served:
        yield served.url


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def numbers_of(verdict: Evaluation) -> list[float | None]:
    spans = [span.probability for span in verdict.unsupported]
    sentences = [sentence.support for sentence in verdict.sentences]
    contexts = [s.relevance for context in verdict.contexts for s in context.sentences]
    scores = [verdict.faithfulness, verdict.relevance, verdict.utilization, verdict.completeness]
    return [*scores, *spans, *sentences, *contexts]


def test_one_at_a_time_the_verdicts_are_the_same(url: str, embedded: trivet.Evaluator) -> None:
    with trivet.Client(url) as client:
        for example in EXAMPLES[:3]:
            texts = (example.question, example.contexts, example.response)
            got = client.evaluate(*texts, id=example.id)
            assert got == embedded.evaluate(*texts, id=example.id)
        bare = client.evaluate("Where?", [], "Here.", allow_empty_contexts=True)
        assert bare == embedded.evaluate("Where?", [], "Here.", allow_empty_contexts=True)
        with pytest.raises(ExampleError) as caught:
            client.evaluate("Where?", [" "], "Here.")
        assert caught.value.code == "empty_contexts"


def test_a_stream_is_the_evaluators(url: str, embedded: trivet.Evaluator) -> None:
    given = EXAMPLES * 4
    with trivet.Client(url, connections=3, examples_per_request=3) as client:
        got = list(client.evaluate_many(given))
    expected = list(embedded.evaluate_many(given))
    assert [type(result) for result in got] == [type(result) for result in expected]
    for one, other in zip(got, expected, strict=True):
        assert one.id == other.id
        if isinstance(one, FailedEvaluation):
            assert one == other
            continue
        assert isinstance(other, Evaluation)
        assert one.replaced_characters == other.replaced_characters
        # Judged beside others, an int8 engine may differ in its last digits.
        assert numbers_of(one) == pytest.approx(numbers_of(other), abs=0.02)


def test_on_an_event_loop(url: str, embedded: trivet.Evaluator) -> None:
    example = EXAMPLES[1]

    async def ask() -> tuple[Evaluation, Any, dict[str, Any], bool]:
        async with trivet.AsyncClient(url) as client:
            return (
                await client.evaluate(
                    example.question, example.contexts, example.response, id=example.id
                ),
                await client.relevance(example.question, example.contexts),
                await client.info(),
                await client.ready(),
            )

    verdict, relevance, info, ready = asyncio.run(ask())
    assert verdict == embedded.evaluate(
        example.question, example.contexts, example.response, id=example.id
    )
    alone = embedded.evaluate(example.question, example.contexts, "")
    assert relevance.relevance == alone.relevance
    assert relevance.contexts == alone.contexts
    assert info["version"] == trivet.__version__
    assert info["limits"]["max_examples"] == 64
    assert ready is True


def test_more_than_a_request_may_hold_is_sent_in_several(embedded: trivet.Evaluator) -> None:
    many = [RagExample("Where?", ("Here.",), "There.", str(number)) for number in range(70)]
    large = [RagExample("Where?", ("Here it is. " * 60,), "", str(n)) for n in range(3)]
    with serving(embedded, ServerSettings(max_body_bytes=1_000)) as served:
        for examples in (many, large):
            with trivet.Client(served.url, examples_per_request=64, most_bytes=1_000) as client:
                results = list(client.evaluate_many(examples))
            assert [result.id for result in results] == [example.id for example in examples]
            assert all(isinstance(result, Evaluation) for result in results)


def test_limits_and_keys_of_the_server_are_told_as_they_are(
    embedded: trivet.Evaluator, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("open-sesame\n")
    keys.chmod(0o600)
    small = ServerSettings(max_contexts=2, max_examples=2, max_body_bytes=2_000)
    three = RagExample("Where?", ("Here.",) * 3, "There.", "three")
    large = RagExample("Where?", ("Here. " * 1_000,), "There.", "large")
    with serving(embedded, small, KeyRing.read(keys)) as served:
        with trivet.Client(served.url) as stranger:
            assert stranger.ready(), "health needs no key"
            with pytest.raises(ServerError) as caught:
                stranger.evaluate("Where?", ["Here."], "There.")
            assert (caught.value.status, caught.value.error_type) == (401, "unauthorized")
        with trivet.Client(served.url, key="open-sesame") as client:
            results = list(client.evaluate_many([*EXAMPLES[:3], three, large]))
    codes = [getattr(result, "code", None) for result in results]
    assert codes == [None, None, None, "too_long", "too_large"]


def test_over_tls_the_certificate_is_checked_and_a_wrong_one_is_not_tried_again(
    embedded: trivet.Evaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = TLS / "cert.pem", TLS / "key.pem"
    problems: list[Problem] = []
    decide = Tries.pause_seconds

    def noted(tries: Tries, problem: Problem) -> float:
        problems.append(problem)
        return decide(tries, problem)

    monkeypatch.setattr(Tries, "pause_seconds", noted)
    with serving(embedded, ServerSettings(tls_cert=certificate, tls_key=key)) as served:
        assert served.url.startswith("https://")
        with trivet.Client(served.url, ca_file=certificate) as client:
            assert client.info()["version"] == trivet.__version__
        with (
            trivet.Client(served.url) as stranger,
            pytest.raises(ServerError, match=r"cannot be reached .*CERTIFICATE_VERIFY_FAILED"),
        ):
            stranger.info()
    assert [problem.passing for problem in problems] == [False]


def test_a_server_that_drains_is_not_ready_and_takes_nothing(embedded: trivet.Evaluator) -> None:
    with (
        serving(embedded, ServerSettings()) as served,
        trivet.Client(served.url, retries=0) as client,
    ):
        assert client.ready()
        draining = served.server.batcher.drain(grace_seconds=20)
        assert asyncio.run_coroutine_threadsafe(draining, served.loop).result(30)
        with pytest.raises(ServerError) as caught:
            client.evaluate("Where?", ["Here."], "There.")
        assert (caught.value.status, caught.value.error_type) == (503, "draining")
    with trivet.Client(served.url, retries=0) as client:
        assert not client.ready()
