"""Running commands that ask an LLM, on small files in the current folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tests.llm.scripted_endpoint import Script, ScriptedEndpoint
from trivet.__main__ import app

KEY = "sk-very-secret-0123456789"
ROW = {
    "question": "When was the mill built?",
    "contexts": ["The mill was built in 1790. It is made of stone.", "The boat is red."],
    "response": "It was built in 1790. The roof is green.",
}


def numbered(count: int) -> list[dict[str, Any]]:
    return [ROW | {"id": f"r{n}", "question": f"What about {n}?"} for n in range(count)]


def write(name: str, *rows: object) -> None:
    """Write rows as JSON lines."""
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_log(*rows: dict[str, Any]) -> None:
    write("log.jsonl", *rows)


def lines(name: str = "out.jsonl") -> list[dict[str, Any]]:
    path = Path(name)
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def call(url: str, *words: str, model: str = "scripted") -> Result:
    """Run a command with an endpoint's address and, if it has a name, a model."""
    models = ["--model", model] if model else []
    return CliRunner().invoke(app, [*words, "--out", "out.jsonl", "--base-url", url, *models])


def run(script: Script, *words: str, model: str = "scripted") -> tuple[Result, ScriptedEndpoint]:
    with ScriptedEndpoint(script) as endpoint:
        return call(endpoint.url, *words, model=model), endpoint


def annotate(url: str, *options: str) -> Result:
    model = "" if "--model" in options else "scripted"
    return call(url, "annotate", "log.jsonl", *options, model=model)


def annotated(script: Script, *options: str, **settings: Any) -> tuple[Result, ScriptedEndpoint]:
    with ScriptedEndpoint(script, **settings) as endpoint:
        return annotate(endpoint.url, *options), endpoint
