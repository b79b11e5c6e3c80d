"""Clients on real connections: a Trivet server with the embedded bundle, and broken ones."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

import trivet
from tests.client.conftest import EXAMPLES, call, serving
from trivet.errors import ExampleError, ServerError
from trivet.records import Evaluation, RagExample
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.server_settings import ServerSettings

TLS = Path(__file__).parents[1] / "serve" / "http" / "tls"


def test_verdicts_are_the_evaluators(kind: Any, url: str, embedded: trivet.Evaluator) -> None:
    with kind(url) as client:
        for example in EXAMPLES:
            assert client.evaluate(**call(example)) == embedded.evaluate(**call(example))
        strict = client.evaluate(**call(example), threshold=0.999)
        assert strict == embedded.evaluate(**call(example), threshold=0.999)
        bare = client.evaluate("Where?", [], "Here.", allow_empty_contexts=True)
        assert bare == embedded.evaluate("Where?", [], "Here.", allow_empty_contexts=True)
        with pytest.raises(ExampleError) as caught:
            client.evaluate("Where?", [" "], "Here.")
        assert caught.value.code == "empty_contexts"
        info = client.info()
        assert (info["version"], info["limits"]["max_examples"]) == (trivet.__version__, 64)


def test_more_than_a_request_may_hold_is_sent_in_several(embedded: trivet.Evaluator) -> None:
    many = [RagExample("Where?", ("Here.",), "There.", str(number)) for number in range(70)]
    large = [RagExample("Where?", ("Here it is. " * 60,), "", str(n)) for n in range(3)]
    with (
        serving(embedded, ServerSettings(max_body_bytes=1_000)) as server,
        trivet.Client(server.url, examples_per_request=64) as client,
    ):
        results = list(client.evaluate_many(many + large))
    assert [result.id for result in results] == [example.id for example in many + large]
    assert all(isinstance(result, Evaluation) for result in results)


def test_limits_and_keys_of_the_server_apply(embedded: trivet.Evaluator, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("open-sesame\n")
    keys.chmod(0o600)
    small = ServerSettings(max_contexts=2, max_examples=2, max_body_bytes=2_000)
    three = RagExample("Where?", ("Here.",) * 3, "There.", "three")
    large = RagExample("Where?", ("Here. " * 1_000,), "There.", "large")
    with serving(embedded, small, KeyRing.read(keys)) as server:
        with trivet.Client(server.url) as keyless:
            with pytest.raises(ServerError) as caught:
                keyless.evaluate("Where?", ["Here."], "There.")
            assert (caught.value.status, caught.value.error_type) == (401, "unauthorized")
        with trivet.Client(server.url, key="open-sesame") as client:
            results = list(client.evaluate_many([*EXAMPLES, three, large]))
    codes = [getattr(result, "code", None) for result in results]
    assert codes == [None, None, None, "too_long", "too_large"]


def test_a_wrong_certificate_is_refused(embedded: trivet.Evaluator) -> None:
    certificate, key = TLS / "cert.pem", TLS / "key.pem"
    with serving(embedded, ServerSettings(tls_cert=certificate, tls_key=key)) as server:
        assert server.url.startswith("https://")
        with trivet.Client(server.url, ca_file=certificate) as client:
            assert client.info()["version"] == trivet.__version__
        with (
            trivet.Client(server.url) as client,
            pytest.raises(
                ServerError, match=r"cannot be reached .*\[SSL: CERTIFICATE_VERIFY_FAILED"
            ),
        ):
            client.info()


@pytest.mark.parametrize(("listens", "error_type"), [(False, "unreachable"), (True, "timeout")])
def test_a_connection_without_an_answer(listens: bool, error_type: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if listens:
            listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        seconds = 0.05 if listens else 20
        client = trivet.Client(url, retries=0, timeout_seconds=seconds)
        with client, pytest.raises(ServerError) as caught:
            client.info()
    assert (caught.value.status, caught.value.error_type) == (None, error_type)
