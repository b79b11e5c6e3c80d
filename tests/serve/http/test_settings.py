"""Server settings: refusals, options and the table of the docs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.command_line import exit_code
from trivet.errors import ConfigError
from trivet.serve.http import process
from trivet.serve.http.server_settings import ServerSettings, is_loopback

PUBLIC = ("0.0.0.0", "::", "", "10.0.0.7", "localhost.example.org", "127.0.0.1.example.org")


def test_only_this_machines_own_addresses_are_loopback() -> None:
    loopback = ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost")
    assert [host for host in loopback + PUBLIC if is_loopback(host)] == list(loopback)


def test_a_public_address_needs_keys_or_insecure() -> None:
    with pytest.raises(ConfigError, match=r"--host 0\.0\.0\.0 .*--keys FILE.*--insecure"):
        ServerSettings(host="0.0.0.0")
    assert ServerSettings(host="0.0.0.0", keys_file=Path("keys")).keys_file == Path("keys")
    assert ServerSettings(host="0.0.0.0", insecure=True).insecure


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_body_bytes": 0}, r"max_body_bytes \(0\) must be above 0"),
        ({"wait_ms": -0.5}, r"wait_ms \(-0.5\) must be at least 0"),
        ({"canary_seconds": float("nan")}, r"canary_seconds \(nan\) must be a finite number"),
        ({"tls_key": Path("a")}, r"--tls-key is given without --tls-cert; TLS needs both"),
    ],
)
def test_a_limit_that_cannot_work_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ServerSettings(**options)


@pytest.mark.parametrize(
    "origin",
    [
        *("*", "null", "", "app.example", "app.example:8080", "file://x", "https://"),
        *("https://app.example/", "https://app.example/page", "https://app.example?x=1"),
        *("https://App.example", "https://me@app.example", "https://app.example:443"),
        *("http://app.example:80", "https://a b", "https://a.example,https://b.example"),
    ],
)
def test_an_origin_that_is_none_is_refused(origin: str) -> None:
    message = r"^--cors: .* is not a valid origin; .*https://app\.example"
    with pytest.raises(ConfigError, match=message):
        ServerSettings(cors=["http://localhost:3000", origin])


@pytest.mark.parametrize(
    "origin",
    ["https://app.example", "http://localhost:3000", "http://127.0.0.1", "http://[::1]:8000"],
)
def test_an_origin_is_taken_as_browsers_send_it(origin: str) -> None:
    assert ServerSettings(cors=[origin]).cors == [origin]


def test_some_settings_may_be_0() -> None:
    settings = ServerSettings(port=0, wait_ms=0.0, grace_seconds=0.0)
    assert (settings.port, settings.wait_ms, settings.grace_seconds) == (0, 0.0, 0.0)


def test_options_become_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse = Mock(side_effect=ConfigError("that is enough"))
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(process, "run_server", refuse)
    numbers = "--port 0 --header-timeout 1.5 --timeout-ms 5 --max-contexts 7"
    others = "--keys k --insecure --no-access-log --log-format text"
    assert exit_code(monkeypatch, "serve", *numbers.split(), *others.split()) == 2
    assert capsys.readouterr().err == "trivet: that is enough\n"
    refuse.assert_called_once()
    assert refuse.call_args.args[1] == ServerSettings(
        port=0,
        header_timeout_seconds=1.5,
        default_timeout_ms=5.0,
        max_contexts=7,
        keys_file=Path("k"),
        insecure=True,
        access_log=False,
        log_format="text",
    )
