"""Judges with and without ``evaluate_many``, scores, reasons, missing libraries."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
from typing import Any

import pytest

from tests.integrations.conftest import Rows
from trivet.integrations.judge import MissingLibraryError, details, import_tool, judge_many, reason
from trivet.records import Evaluation, FailedEvaluation, MarkedSpan, RagExample

FACTORIES = {
    "ragas": ("metrics", "ragas>=0.4.3,<0.5' 'langchain-community<0.4"),
    "deepeval": ("metrics", "deepeval"),
    "langchain": ("runnable", "langchain-core"),
    "llama_index": ("evaluators", "llama-index-core"),
    "haystack": ("TrivetEvaluator", "haystack-ai"),
    "mlflow": ("scorer", "mlflow"),
    "phoenix": ("evaluator", "arize-phoenix-evals"),
}


def test_both_kinds_of_judge_give_the_same(judge: Any, single_judge: Any, rows: Rows) -> None:
    examples = [RagExample(r["question"], tuple(r["contexts"]), r["response"]) for r in rows]
    examples.insert(1, RagExample("Where?", (), "Here."))
    together, singly = judge_many(judge, examples), judge_many(single_judge, examples)
    assert judge.calls == [4]
    assert isinstance(singly[1], FailedEvaluation)
    for result, other in zip(together, singly, strict=True):
        if isinstance(result, Evaluation) and isinstance(other, Evaluation):
            assert result.faithfulness == pytest.approx(other.faithfulness, abs=0.02)
        else:
            assert result == other


def test_a_reason_explains_a_score(verdicts: list[Evaluation]) -> None:
    spans = tuple(MarkedSpan(n, n + 2, "ab", 0.875) for n in range(7))
    verdict = dataclasses.replace(
        verdicts[0], unsupported=spans, relevance=0.25, utilization=0.125, cut_question_tokens=9
    )
    cut = "; 9 tokens of the question were not read"
    text = reason(verdict, "faithfulness")
    assert text == "unsupported: " + ", ".join(["'ab' (0.88)"] * 5) + " and 2 more" + cut
    assert reason(verdict, "completeness") == "relevance 0.250, utilization 0.125" + cut
    assert reason(verdict, "context_relevance").startswith("by context: 0.")
    none = dataclasses.replace(verdict, unsupported=(), cut_question_tokens=0, utilization=None)
    assert reason(none, "faithfulness") == "nothing unsupported was found"
    assert reason(none, "utilization").startswith("no score: ")
    with pytest.raises(ValueError, match="no score 'trust'; there are faithfulness, context_rel"):
        reason(none, "trust")
    names = ("supported_share", "adherent", "abstains", "windows", "cut_question_tokens")
    told = details(dataclasses.replace(none, to_check=spans[:1]))
    assert told.items() >= {name: getattr(none, name) for name in names}.items()
    assert (told["unsupported"], told["to_check"][0]["text"]) == ((), "ab")


@pytest.mark.parametrize("name", FACTORIES)
def test_a_missing_tool_is_named(name: str, judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"trivet.integrations.{name}")
    factory, package = FACTORIES[name]
    imported = importlib.import_module

    def fail_to_import(wanted: str, *arguments: Any) -> Any:
        if wanted.startswith("trivet") or wanted == "pydantic":
            return imported(wanted, *arguments)
        raise ModuleNotFoundError(f"No module named {wanted!r}", name=wanted)

    monkeypatch.setattr("trivet.integrations.judge.importlib.import_module", fail_to_import)
    with pytest.raises(MissingLibraryError) as caught:
        getattr(module, factory)(judge, threshold=0.5)
    assert f"is not installed: pip install '{package}'" in str(caught.value)


def test_a_missing_dependency_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "half_there.py").write_text('"""Half."""\nimport not_there_at_all\n')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all") as caught:
        import_tool("half_there", "half")
    assert not isinstance(caught.value, MissingLibraryError)


def test_importing_the_adapters_imports_no_tool() -> None:
    script = (
        "import importlib, sys\n"
        "import trivet\n"
        "assert not any(name.startswith('trivet.integrations') for name in sys.modules)\n"
        f"for name in {[*FACTORIES, 'row_scoring']!r}:\n"
        "    importlib.import_module('trivet.integrations.' + name)\n"
        "foreign = {'ragas', 'deepeval', 'langsmith', 'langchain_core', 'llama_index',\n"
        "    'haystack', 'mlflow', 'phoenix', 'datasets',\n"
        "    'ray', 'pandas', 'pyarrow', 'torch'}\n"
        "print(sorted(foreign & set(sys.modules)))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("[]\n", 0), result.stderr
