"""The server of a review: it shows and saves rows to its own page, and to nothing else."""

from __future__ import annotations

import http.client
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.annotation.review.conftest import TEXTS, lines
from trivet.annotation.review.review import Review
from trivet.annotation.review.server import MOST_BYTES, ReviewServer

JSON = {"Content-Type": "application/json"}
SAME = {"seen": "", "unsupported": [], "relevant": [0], "utilized": None}


def ask(
    server: ReviewServer,
    path: str = "",
    body: object = None,
    method: str = "",
    **headers: str | None,
) -> tuple[int, dict[str, str], str]:
    """Send a request to a path behind the secret; ``None`` leaves a header out."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    sent = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    method = method or ("GET" if data is None else "POST")
    full = path if path.startswith("/") else f"/{server.secret}/{path}"
    connection.request(method, full, data, {**(JSON if data else {}), **sent})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), text


def test_the_page_allows_its_own_script_alone(server: ReviewServer) -> None:
    status, headers, text = ask(server)
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert re.search(
        r"script-src 'sha256-[\w+/=]+'; connect-src 'self'; frame-ancestors 'none'$", policy
    )
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert not {name for name in headers if name.startswith("Access-Control")}
    assert 'data-left="0 1 2 3"' in text
    assert "http://" not in text
    assert "https://" not in text


def test_a_row_shows_its_proposed_marks(server: ReviewServer) -> None:
    status, _, text = ask(server, "rows/0")
    assert status == 200
    assert re.findall(r'aria-checked="true">([^<]*)<', text) == ["1791"]
    assert text.count('aria-pressed="true"') == 2
    assert "they agree on 0 % of support, 100 % of relevant." in text


def test_a_row_shows_what_the_annotators_said(server: ReviewServer, review: Review) -> None:
    def answer(supported: bool) -> dict[str, Any]:
        said = {
            "response_sentence_key": "b",
            "explanation": f"The year is <{supported}>.",
            "supporting_sentence_keys": [],
            "fully_supported": supported,
        }
        return {
            "relevance_explanation": "",
            "all_relevant_sentence_keys": [],
            "overall_supported_explanation": "",
            "overall_supported": supported,
            "sentence_support_information": [said],
            "all_utilized_sentence_keys": [],
        }

    annotation = {"answer": answer(False), "other": {"answer": answer(True)}}
    object.__setattr__(review.rows[0], "raw", {**review.rows[0].raw, "annotation": annotation})
    text = ask(server, "rows/0")[2]
    shown = re.findall(r"annotator (\d): (\w+)</b> (.*)</p>", text)
    assert shown == [
        ("1", "unsupported", "The year is &lt;False&gt;."),
        ("2", "supported", "The year is &lt;True&gt;."),
    ]
    unknown: list[object] = [None, 1, {"answer": 1}, {"answer": {}, "other": []}]
    for broken in unknown:
        object.__setattr__(review.rows[0], "raw", {**review.rows[0].raw, "annotation": broken})
        assert "annotator 1" not in ask(server, "rows/0")[2]


def test_a_saved_row_is_on_the_disk_when_the_answer_comes(server: ReviewServer, out: Path) -> None:
    status, _, text = ask(server, "rows/0", SAME)
    assert (status, json.loads(text)) == (200, {"left": [1, 2, 3]})
    assert lines(out)[0]["labels"] == {
        "unsupported": [],
        "adherent": True,
        "relevant": [[0, 0, 16]],
    }
    assert ask(server, "rows/0", SAME)[0] == 409
    assert "reviewed by Ada" in ask(server, "rows/0")[2]


@pytest.mark.parametrize(
    ("path", "body", "status", "headers"),
    [
        ("", None, 421, {"Host": "trivet.example"}),
        ("", None, 421, {"Host": "127.0.0.1:1"}),
        ("rows/0", SAME, 403, {"Origin": "http://trivet.example"}),
        ("rows/0", SAME, 403, {"Origin": "null"}),
        ("rows/0", SAME, 415, {"Content_Type": "text/plain"}),
        ("rows/0", b"{", 400, {}),
        ("rows/0", [], 400, {}),
        ("rows/0", b"\xff", 400, {}),
        ("rows/0", SAME, 413, {"Content_Length": str(MOST_BYTES + 1)}),
        ("rows/0", SAME, 411, {"Content_Length": "-1"}),
        ("rows/0", {"unsupported": [99]}, 422, {}),
        ("rows/0", {"unsupported": ["0"]}, 422, {}),
        ("rows/0", {"relevant": 1}, 422, {}),
        ("rows/4", SAME, 404, {}),
        ("rows/-1", None, 404, {}),
        ("rows/0x1", None, 404, {}),
        ("", SAME, 404, {}),
        ("/", None, 404, {}),
        ("/rows/0", None, 404, {}),
        ("/{secret}", None, 404, {}),  # without its last slash, rows would be looked for elsewhere
        ("/guess/rows/0", SAME, 404, {}),
    ],
)
def test_a_request_that_is_not_of_the_page_is_refused(
    server: ReviewServer, out: Path, path: str, body: Any, status: int, headers: dict[str, str]
) -> None:
    found, answered, text = ask(server, path.format(secret=server.secret), body, **headers)
    assert found == status
    assert set(json.loads(text)) == {"error"}
    assert not {name for name in answered if name.startswith("Access-Control")}
    assert out.read_bytes() == b""


def test_texts_cannot_change_the_page(server: ReviewServer, review: Review, tmp_path: Path) -> None:
    hostile = '<img src=x onerror=alert(1)> "quoted" & \u202eturned'
    row = review.rows[0]
    example = row.labelled.example
    object.__setattr__(example, "response", f"{hostile} {TEXTS['response']}")
    object.__setattr__(example, "contexts", (hostile, *TEXTS["contexts"]))
    object.__setattr__(row.labelled, "group", hostile)
    text = ask(server, "rows/0")[2]
    assert "<img" not in text
    assert "[U+202E]" in text
    assert "\u202e" not in text


def test_a_connection_without_a_request_holds_nothing_up(server: ReviewServer) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port)):
        assert ask(server)[0] == 200
