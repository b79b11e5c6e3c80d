"""Inspect replays recorded responses and scores them, without any model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trivet.integrations.inspect_ai import replay, scorer

pytestmark = pytest.mark.filterwarnings("ignore")


def test_recorded_responses_are_scored(
    judge: Any, rows: list[dict[str, Any]], verdicts: list[Any], tmp_path: Path
) -> None:
    inspect_ai = pytest.importorskip("inspect_ai")
    from inspect_ai.dataset import Sample

    samples = [Sample(input=row["question"], metadata=row) for row in rows]
    task = inspect_ai.Task(dataset=samples, solver=replay(), scorer=scorer(judge))
    (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    mean = sum(verdict.faithfulness for verdict in verdicts) / len(verdicts)
    assert means["faithfulness"] == pytest.approx(mean, abs=0.02)
    assert set(means) == {"faithfulness", "context_relevance", "utilization", "completeness"}
    assert sum(judge.calls) == len(rows)
