"""Retries, pauses and problems of single requests, without I/O."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Any

import httpx2
import pytest

from tests.client.conftest import error as refusal
from trivet.client import requester
from trivet.client.messages import retry_after_seconds
from trivet.client.requester import ClientSettings, Requester
from trivet.errors import ServerError


class Script:
    """Requests answered by a script; pauses are noted and not waited for."""

    def __init__(self, *outcomes: httpx2.Response | Exception) -> None:
        self.outcomes = deque(outcomes)
        self.requests: list[dict[str, Any]] = []
        self.pauses: list[float] = []

    async def send(self, **request: Any) -> httpx2.Response:
        self.requests.append(request)
        outcome = self.outcomes.popleft()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def pause(self, seconds: float, error: Exception) -> None:
        self.pauses.append(seconds)

    def info(self, retries: int = 2, timeout_seconds: float = 60.0) -> dict[str, Any]:
        settings = ClientSettings("http://server", None, timeout_seconds, retries)
        return asyncio.run(Requester(settings, self.send, self.pause).info())


TEMPORARY = {
    "overloaded": refusal(429, "overloaded"),
    "draining": refusal(503, "draining"),
    "proxy": httpx2.Response(503, text="<html>no backend</html>"),
    "refused": httpx2.ConnectError("refused"),
    "reset": httpx2.ReadError("reset"),
    "closed": httpx2.RemoteProtocolError("closed"),
}


@pytest.mark.parametrize("outcome", TEMPORARY.values(), ids=TEMPORARY)
def test_temporary_problems_are_retried(outcome: httpx2.Response | Exception) -> None:
    script = Script(outcome, outcome, httpx2.Response(200, json={"ready": True}))
    assert script.info() == {"ready": True}
    assert len(script.requests) == 3
    assert all(0 < request.pop("timeout") <= 60 for request in script.requests)
    assert script.requests == [script.requests[0]] * 3
    script = Script(outcome, outcome, outcome)
    with pytest.raises(ServerError) as caught:
        script.info()
    assert (len(script.requests), len(script.pauses)) == (3, 2)
    if isinstance(outcome, httpx2.Response):
        assert caught.value.status == outcome.status_code
    else:
        assert (caught.value.status, caught.value.error_type) == (None, "unreachable")


WRONG_CERTIFICATE = httpx2.ConnectError("CERTIFICATE_VERIFY_FAILED")
WRONG_CERTIFICATE.__cause__ = ssl.SSLError("CERTIFICATE_VERIFY_FAILED")


@pytest.mark.parametrize(
    ("error", "error_type", "message"),
    [
        (httpx2.ReadTimeout(""), "timeout", r"did not answer in time \(ReadTimeout\)"),
        (httpx2.PoolTimeout("full"), "timeout", r"in time \(PoolTimeout: full\); raise timeout_se"),
        (WRONG_CERTIFICATE, "unreachable", "cannot be reached .*CERTIFICATE_VERIFY_FAILED"),
        (httpx2.UnsupportedProtocol("no"), "unreachable", "cannot be reached"),
    ],
)
def test_permanent_problems_are_final(error: Exception, error_type: str, message: str) -> None:
    script = Script(error)
    with pytest.raises(ServerError, match=message) as caught:
        script.info()
    assert (caught.value.status, caught.value.error_type) == (None, error_type)
    assert script.pauses == []


def test_pauses_double_up_to_a_bound_with_full_jitter_and_add_to_retry_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: low + high)
    script = Script(*[refusal(429, "overloaded", retry_after="3")] * 9)
    with pytest.raises(ServerError, match="scripted overloaded"):
        script.info(retries=8, timeout_seconds=1000)
    first, longest = requester.FIRST_PAUSE_SECONDS, requester.LONGEST_PAUSE_SECONDS
    assert script.pauses == [3.0 + min(first * 2**n, longest) for n in range(8)]


def test_a_pause_longer_than_the_timeout_is_not_begun() -> None:
    script = Script(refusal(429, "overloaded", retry_after="21"))
    with pytest.raises(ServerError, match="scripted overloaded"):
        script.info(timeout_seconds=20)
    assert script.pauses == []


def test_retry_after_is_seconds() -> None:
    assert retry_after_seconds("7") == 7.0
    assert retry_after_seconds(" 0.5") == 0.5
    for nothing in (None, "", "soon", "-5", "Fri, 27 Nov 2026 16:00:00 GMT", "1e999x", "nan"):
        assert retry_after_seconds(nothing) == 0.0
