"""Tests of annotation run in a folder of their own, with a key in the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.annotation.job_commands import KEY


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
