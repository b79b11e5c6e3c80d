"""``--cors``: pages of the given origins may ask, others may not."""

from __future__ import annotations

import pytest

from tests.serve.http.conftest import EXAMPLE, Serve
from trivet.serve.http.server_settings import ServerSettings

OWN = "https://app.example"


def asks(origin: str, method: str = "POST") -> dict[str, str]:
    return {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization, content-type",
    }


def test_a_page_of_the_origin_may_ask_with_a_key(serve: Serve) -> None:
    server = serve(ServerSettings(cors=[OWN]), key_file="secret\n")
    # A browser asks first, without the key.
    before = server.run(server.client.options("/v1/evaluate", headers=asks(OWN)))
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, OWN)
    assert "authorization" in before.headers["access-control-allow-headers"].lower()
    answer = server.post("/v1/evaluate", EXAMPLE, {"Origin": OWN, "Authorization": "Bearer secret"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, OWN)
    # A page can read why it was refused.
    refused = server.post("/v1/evaluate", EXAMPLE, {"Origin": OWN})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, OWN)


@pytest.mark.parametrize("origins", [None, [OWN]])
def test_other_pages_may_not(serve: Serve, origins: list[str] | None) -> None:
    server = serve(settings=ServerSettings(cors=origins))
    other = "https://app.example.evil"
    before = server.run(server.client.options("/v1/evaluate", headers=asks(other)))
    assert before.status_code in (400, 405)
    answer = server.post("/v1/evaluate", EXAMPLE, {"Origin": other})
    assert "access-control-allow-origin" not in {*before.headers, *answer.headers}
