"""``trivet serve``: options, and refusals before it listens."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests.command_line import exit_code
from trivet.errors import ConfigError
from trivet.serve.http import process
from trivet.serve.http.settings import ServerSettings

Call = Callable[..., tuple[int, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs ``trivet serve`` and returns its exit code and stderr."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    def run(*flags: str) -> tuple[int, str]:
        return exit_code(monkeypatch, "serve", *flags), capsys.readouterr().err

    return run


def test_options_become_settings(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[ServerSettings] = []

    def refuse(load: object, settings: ServerSettings, *more: object) -> NoReturn:
        given.append(settings)
        raise ConfigError("that is enough")

    monkeypatch.setattr(process, "run_server", refuse)
    numbers = "--port 0 --header-timeout 1.5 --timeout-ms 5 --max-contexts 7"
    others = "--keys k --insecure --no-access-log --log-format text"
    assert call(*numbers.split(), *others.split()) == (2, "trivet: that is enough\n")
    assert given == [
        ServerSettings(
            port=0,
            header_timeout_seconds=1.5,
            default_timeout_ms=5.0,
            max_contexts=7,
            keys_file=Path("k"),
            insecure=True,
            access_log=False,
            log_format="text",
        )
    ]
