"""Inspect finds tasks, solver and scorer by the entry point of the installed package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.data.examples import write_parquet
from tests.integrations.conftest import ROWS, Rows
from trivet.errors import DataError
from trivet.integrations.inspect_ai import replay
from trivet.integrations.judge import SCORES
from trivet.records import Evaluation

inspect_ai = pytest.importorskip("inspect_ai")
SUPPORTED = (True, False, False)


def write_ragtruth(folder: Path) -> None:
    sources, responses = [], []
    for number, (row, supported) in enumerate(zip(ROWS, SUPPORTED, strict=True)):
        passages = "".join(
            f"passage {place}:{text}\n\n" for place, text in enumerate(row["contexts"], start=1)
        )
        info = {"question": row["question"], "passages": passages}
        one = {"source_id": str(number), "task_type": "QA", "source_info": info, "prompt": "..."}
        sources.append(one)
        text = row["response"]
        wrong = [] if supported else [{"start": 0, "end": len(text), "text": text}]
        fields = {"id": str(number), "model": "m", "split": "test", "quality": "good"}
        responses.append({**fields, "source_id": str(number), "labels": wrong, "response": text})
    for name, lines in (("source_info", sources), ("response", responses)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def write_halubench(folder: Path) -> None:
    rows = [
        {
            "id": str(number),
            "passage": "\n".join(row["contexts"]),
            "question": row["question"],
            "answer": row["response"],
            "label": "PASS" if supported else "FAIL",
            "source_ds": "halueval",
        }
        for number, (row, supported) in enumerate(zip(ROWS, SUPPORTED, strict=True))
    ]
    write_parquet(folder / "data" / "test-0.parquet", *rows)


def write_ragbench(folder: Path) -> None:
    rows = [
        {
            "id": str(number),
            "question": row["question"],
            "documents_sentences": [
                [[f"{place}a", text]] for place, text in enumerate(row["contexts"])
            ],
            "response_sentences": [["a", row["response"]]],
            "adherence_score": supported,
            "unsupported_response_sentence_keys": [] if supported else ["a"],
            "all_relevant_sentence_keys": ["0a"],
            "all_utilized_sentence_keys": ["0a"],
            "sentence_support_information": [],
        }
        for number, (row, supported) in enumerate(zip(ROWS, SUPPORTED, strict=True))
    ]
    write_parquet(folder / "covidqa" / "test-0.parquet", *rows)


WRITERS = {
    "ragtruth_qa": write_ragtruth,
    "ragbench": write_ragbench,
    "halubench": write_halubench,
}


def run(task: str, folder: Path, answers: Sequence[str] = (), **options: Any) -> Any:
    """Run a task by name, on rows written to a folder and with a scripted model."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    outputs = [ModelOutput.from_content("scripted", answer) for answer in answers]
    for output in outputs:
        output.usage = ModelUsage()  # else their tokens are counted, with a file from the network
    model = get_model("mockllm/model", custom_outputs=outputs)
    settings: dict[str, Any] = {"log_dir": "logs", "display": "none", "max_samples": 1}
    (log,) = inspect_ai.eval(
        f"trivet/{task}", task_args={"data": str(folder)}, model=model, **settings, **options
    )
    assert log.status == "success", log.error
    return log


def metrics_of(log: Any) -> dict[str, float]:
    return {
        name: each.value for score in log.results.scores for name, each in score.metrics.items()
    }


@pytest.mark.parametrize("task", WRITERS)
def test_a_task_scores_the_verdicts_of_a_model(tmp_path: Path, task: str) -> None:
    pytest.importorskip("pyarrow")
    WRITERS[task](tmp_path)
    answers = ["Verdict: supported", "It does not say.\n**Verdict: Unsupported**", "Maybe."]
    log = run(task, tmp_path, answers)
    for sample, row in zip(log.samples, ROWS, strict=True):
        assert row["question"] in sample.input
        assert row["response"] in sample.input
        assert row["contexts"][-1] in sample.input
    scores = [sample.scores["pattern"] for sample in log.samples]
    assert [score.value for score in scores] == ["C", "C", "I"]
    assert scores[2].reason == "invalid_response_format"
    found = metrics_of(log)
    expected = {"accuracy": 2 / 3, "supported": 1.0, "unsupported": 0.5, "balanced_accuracy": 0.75}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_trivets_verdicts_need_no_model(tmp_path: Path, verdicts: list[Evaluation]) -> None:
    from inspect_ai.util import registry_create

    write_ragtruth(tmp_path)
    log = run("ragtruth_qa", tmp_path, solver=registry_create("solver", "trivet/verdict"))
    names = {True: "Verdict: supported", False: "Verdict: unsupported"}
    told = [sample.output.completion for sample in log.samples]
    assert told == [names[verdict.adherent is True] for verdict in verdicts]


def test_the_scorer_is_found_by_its_name(rows: Rows, verdicts: list[Evaluation]) -> None:
    from inspect_ai.dataset import Sample
    from inspect_ai.util import registry_create

    samples = [Sample(input=row["question"], metadata=row) for row in rows]
    task = inspect_ai.Task(dataset=samples, solver=replay())
    (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir="logs", display="none")
    scored = inspect_ai.score(log, registry_create("scorer", "trivet/scorer"), display="none")
    for sample, verdict in zip(scored.samples, verdicts, strict=True):
        found = sample.scores["scorer"].value
        expected = {name: getattr(verdict, field) for name, field in SCORES.items()}
        assert found == pytest.approx(expected, abs=0.02)


def test_a_set_that_is_not_there_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from trivet.integrations.inspect_tasks import halubench

    write_halubench(tmp_path)
    with pytest.raises(DataError, match="has no row of 'halubench/drop' with a verdict"):
        halubench(data=str(tmp_path), only="drop")
