"""``trivet serve``: its options become settings."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NoReturn

import pytest

from tests.command_line import exit_code
from trivet.errors import ConfigError
from trivet.serve.http import process
from trivet.serve.http.settings import ServerSettings


def test_options_become_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[ServerSettings] = []

    def refuse(load: object, settings: ServerSettings, *more: object) -> NoReturn:
        given.append(settings)
        raise ConfigError("that is enough")

    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(process, "run_server", refuse)
    numbers = "--port 0 --header-timeout 1.5 --timeout-ms 5 --max-contexts 7"
    others = "--keys k --insecure --no-access-log --log-format text"
    assert exit_code(monkeypatch, "serve", *numbers.split(), *others.split()) == 2
    assert capsys.readouterr().err == "trivet: that is enough\n"
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
