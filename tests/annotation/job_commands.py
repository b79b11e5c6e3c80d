"""Running `trivet generate` and `trivet perturb` against a scripted endpoint."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from tests.llm.scripted_endpoint import Script, ScriptedEndpoint
from trivet.__main__ import app


def run(script: Script, *words: str, model: str = "scripted") -> tuple[Result, ScriptedEndpoint]:
    """Run a command with the endpoint's address and, if it has a name, a model."""
    models = ["--model", model] if model else []
    with ScriptedEndpoint(script) as endpoint:
        options = ["--base-url", endpoint.url, *models]
        return CliRunner().invoke(app, [*words, "--out", "out.jsonl", *options]), endpoint


def write(name: str, *rows: object) -> None:
    """Write rows as JSON lines."""
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
