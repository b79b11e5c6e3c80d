"""Retries, pauses and problems of single requests."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.client.conftest import ScriptedServer
from tests.client.conftest import error as refusal
from trivet import client as module
from trivet.errors import ServerError

ANSWER = {"ready": True, "bundle": "embedded"}

TEMPORARY = {
    "overloaded": refusal(429, "overloaded"),
    "draining": refusal(503, "draining"),
    "proxy": httpx2.Response(503, text="<html>no backend</html>"),
    "refused": httpx2.ConnectError("refused"),
    "reset": httpx2.ReadError("reset"),
    "closed": httpx2.RemoteProtocolError("closed"),
}


@pytest.mark.parametrize("outcome", TEMPORARY.values(), ids=TEMPORARY)
def test_temporary_problems_are_retried(client: Any, server: ScriptedServer, outcome: Any) -> None:
    server.script += [outcome, outcome]
    assert client.info() == ANSWER
    assert len(server.requests) == 3
    server.script += [outcome] * 3
    with pytest.raises(ServerError) as caught:
        client.info()
    assert len(server.requests) == 6
    if isinstance(outcome, httpx2.Response):
        assert caught.value.status == outcome.status_code
    else:
        assert (caught.value.status, caught.value.error_type) == (None, "unreachable")


WRONG_CERTIFICATE = httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] unknown")


@pytest.mark.parametrize(
    ("problem", "error_type", "message"),
    [
        (httpx2.ReadTimeout(""), "timeout", r"did not answer in time \(ReadTimeout\)"),
        (httpx2.PoolTimeout("full"), "timeout", r"in time \(PoolTimeout: full\); raise timeout_se"),
        (WRONG_CERTIFICATE, "unreachable", "cannot be reached .*CERTIFICATE_VERIFY_FAILED"),
        (httpx2.UnsupportedProtocol("no"), "unreachable", "cannot be reached"),
    ],
)
def test_permanent_problems_are_final(
    client: Any, server: ScriptedServer, problem: Any, error_type: str, message: str
) -> None:
    server.script.append(problem)
    with pytest.raises(ServerError, match=message) as caught:
        client.info()
    assert (caught.value.status, caught.value.error_type) == (None, error_type)
    assert len(server.requests) == 1


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses of the clients, which end at once."""
    waited: list[float] = []

    def wait(event: object, seconds: float) -> bool:
        waited.append(seconds)
        return False

    monkeypatch.setattr("random.uniform", lambda low, high: low + high)
    monkeypatch.setattr("threading.Event.wait", wait)
    return waited


def test_pauses_double_up_to_a_bound_and_add_to_retry_after(
    server: ScriptedServer, pauses: list[float]
) -> None:
    server.script += [refusal(429, "overloaded", retry_after="3")] * 9
    client = module.Client(server.url, retries=8, timeout_seconds=1000)
    with pytest.raises(ServerError, match="scripted overloaded"):
        client.info()
    first, longest = module.FIRST_PAUSE_SECONDS, module.LONGEST_PAUSE_SECONDS
    assert pauses == [3.0 + min(first * 2**n, longest) for n in range(8)]


def test_a_pause_longer_than_the_timeout_is_not_begun(
    server: ScriptedServer, pauses: list[float]
) -> None:
    server.script.append(refusal(429, "overloaded", retry_after="21"))
    with pytest.raises(ServerError, match="scripted overloaded"):
        module.Client(server.url, timeout_seconds=20).info()
    assert pauses == []


@pytest.mark.parametrize("header", ["", "soon", "-5", "Fri, 27 Nov 2026 16:00:00 GMT", "nan"])
def test_a_retry_after_that_is_not_seconds_asks_for_no_pause(
    server: ScriptedServer, pauses: list[float], header: str
) -> None:
    server.script.append(refusal(503, "draining", retry_after=header))
    assert module.Client(server.url).info() == ANSWER
    assert pauses == [module.FIRST_PAUSE_SECONDS]
