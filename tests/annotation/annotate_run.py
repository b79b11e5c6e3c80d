"""Runs of ``trivet annotate`` on small logs in the current folder, against a scripted endpoint."""

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


def write_log(*rows: dict[str, Any]) -> None:
    lines = [json.dumps(row) for row in rows]
    Path("log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def numbered(count: int) -> list[dict[str, Any]]:
    return [ROW | {"id": f"r{n}", "question": f"What about {n}?"} for n in range(count)]


def annotate(url: str, *options: str) -> Result:
    words = ["annotate", "log.jsonl", "--out", "out.jsonl", "--base-url", url]
    models = [] if "--model" in options else ["--model", "scripted"]
    return CliRunner().invoke(app, [*words, *models, *options])


def run(script: Script, *options: str, **settings: Any) -> tuple[Result, ScriptedEndpoint]:
    with ScriptedEndpoint(script, **settings) as endpoint:
        return annotate(endpoint.url, *options), endpoint


def lines(name: str = "out.jsonl") -> list[dict[str, Any]]:
    path = Path(name)
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
