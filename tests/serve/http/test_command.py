"""``trivet serve``: what it refuses before it listens."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trivet.__main__ import main
from trivet.records import ConfigError
from trivet.serve.http import process
from trivet.serve.http.settings import ServerSettings

Call = Callable[..., tuple[int, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return what runs ``trivet serve`` here and gives back its exit code and stderr."""
    import logging

    # Its log goes to this test's stderr alone.
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    def run(*flags: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["trivet", "serve", *flags])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), capsys.readouterr().err

    return run


def test_an_open_address_is_refused_without_keys(call: Call) -> None:
    code, said = call("--host", "0.0.0.0")
    assert code == 2
    assert said.startswith("trivet: host 0.0.0.0 can be reached from other machines")
    assert "--keys FILE" in said
    assert "--insecure" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--keys", "no-such-file"], "trivet: no-such-file: the keys cannot be read"),
        (["--tls-cert", "a.pem"], "trivet: tls_cert is given without tls_key"),
        (["--grace", "-1"], "trivet: grace_seconds (-1) must be at least 0"),
        (["--timeout-ms", "90000"], "trivet: default_timeout_ms (90000) must not exceed"),
        (["--port", "70000"], "trivet: port (70000) must be at most 65535"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(
    call: Call, flags: list[str], message: str
) -> None:
    code, said = call(*flags)
    assert code == 2
    assert said.startswith(message)
    assert said.count("\n") == 1


def test_a_port_that_is_taken_is_refused(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = call("--port", str(taken.getsockname()[1]))
    assert code == 2
    assert "cannot be used: Address already in use; give another (--port)" in said


def test_a_bundle_that_is_none_is_refused_as_everywhere(call: Call, tmp_path: Path) -> None:
    code, said = call("--port", "0", "--bundle", str(tmp_path))
    assert code == 3
    assert "trivet: " in said


def test_a_missing_extra_is_named_with_its_command(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("trivet.serve.http.process")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("trivet.serve.http.running")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn.config", None)
    code, said = call()
    assert code == 2
    assert "pip install 'trivet[serve]'" in said


def test_flags_become_settings(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[ServerSettings] = []

    def refuse(load: object, settings: ServerSettings, *more: object) -> int:
        given.append(settings)
        raise ConfigError("that is enough")

    monkeypatch.setattr(process, "run_server", refuse)
    flags = {
        "--host": "::1",
        "--port": "1234",
        "--keys": "keys",
        "--tls-cert": "cert",
        "--tls-key": "key",
        "--max-body-bytes": "1",
        "--max-contexts": "2",
        "--max-characters": "3",
        "--max-examples": "4",
        "--max-requests": "5",
        "--max-queued-windows": "6",
        "--max-connections": "7",
        "--max-timeout-ms": "8",
        "--timeout-ms": "7.5",
        "--wait-ms": "9",
        "--header-timeout": "10.5",
        "--body-timeout": "11",
        "--idle-timeout": "12",
        "--grace": "13",
        "--canary": "14",
        "--hung": "15",
        "--log-format": "text",
    }
    words = [word for pair in flags.items() for word in pair]
    assert call(*words, "--insecure", "--no-access-log") == (2, "trivet: that is enough\n")
    assert given == [
        ServerSettings(
            host="::1",
            port=1234,
            max_body_bytes=1,
            max_contexts=2,
            max_characters=3,
            max_examples=4,
            max_requests=5,
            max_queued_windows=6,
            max_connections=7,
            wait_ms=9.0,
            default_timeout_ms=7.5,
            max_timeout_ms=8.0,
            header_timeout_seconds=10.5,
            body_timeout_seconds=11.0,
            idle_timeout_seconds=12.0,
            grace_seconds=13.0,
            keys_file=Path("keys"),
            insecure=True,
            tls_cert=Path("cert"),
            tls_key=Path("key"),
            canary_seconds=14.0,
            hung_seconds=15.0,
            log_format="text",
            access_log=False,
        )
    ]
