"""Hugging Face evaluate computes our metric over lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trivet.integrations.evaluate import metric

pytestmark = pytest.mark.filterwarnings("ignore")


def test_lists_are_scored_in_one_call(
    judge: Any,
    rows: list[dict[str, Any]],
    expected: Callable[[str], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    pytest.importorskip("evaluate")
    rows.append({**rows[0], "contexts": [""]})
    computed = metric(judge).compute(
        predictions=[row["response"] for row in rows],
        questions=[row["question"] for row in rows],
        contexts=[row["contexts"] for row in rows],
    )
    assert computed["faithfulness_scores"][:3] == expected("faithfulness")
    assert computed["faithfulness_scores"][3] is None
    assert computed["faithfulness"] == pytest.approx(sum(computed["faithfulness_scores"][:3]) / 3)
    assert (computed["faithfulness_n"], computed["faithfulness_n_failed"]) == (3, 1)
    assert judge.calls == [4]
