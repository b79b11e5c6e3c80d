"""A client imports little, and adapters accept a client as their judge."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import trivet
from tests.client.conftest import EXAMPLES, ScriptedServer, error
from trivet.integrations.langchain import evaluator

HEAVY = ("numpy", "onnxruntime", "tokenizers", "pydantic", "trivet.serve", "trivet.data")


def loaded(code: str) -> Any:
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_client_loads_no_backend_and_an_evaluator_no_client() -> None:
    both = loaded("import trivet; trivet.Client, trivet.AsyncClient")
    assert [name for name in HEAVY if name in both] == []
    assert "httpx2" in both
    assert "httpx2" not in loaded("import trivet; trivet.Evaluator")


def test_without_its_library_a_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trivet.client", raising=False)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ImportError, match=r"pip install -c constraints.txt '\.\[client\]'"):
        _ = trivet.Client


def test_an_adapter_takes_a_client(
    client: trivet.Client, server: ScriptedServer, embedded: trivet.Evaluator
) -> None:
    example = EXAMPLES[1]
    inputs = {"question": example.question, "contexts": list(example.contexts)}
    outputs = {"answer": example.response}
    assert evaluator(client)(inputs, outputs) == evaluator(embedded)(inputs, outputs)
    server.script.append(error(401, "unauthorized"))
    with pytest.raises(trivet.ServerError, match="scripted unauthorized"):
        evaluator(client)(inputs, outputs)
