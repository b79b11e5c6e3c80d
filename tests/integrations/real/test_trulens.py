"""TruLens holds our metrics, writes them down and reads them again."""

from __future__ import annotations

from typing import Any

import pytest

from trivet.integrations.trulens import metrics

pytestmark = pytest.mark.filterwarnings("ignore")


def test_metrics_are_called_by_their_selectors(
    judge: Any, rows: list[dict[str, Any]], verdicts: list[Any]
) -> None:
    pytest.importorskip("trulens.core")
    made = metrics(judge)
    assert made[0].name == "trivet_faithfulness"
    value, said = made[0](**rows[1])
    assert value == pytest.approx(verdicts[1].faithfulness, abs=0.02)
    assert said["reason"].startswith("unsupported: ")
    for metric in made[1:]:
        metric(**rows[1])
    assert judge.calls == [1]


def test_a_metric_is_found_by_its_written_address(rows: list[dict[str, Any]]) -> None:
    pytest.importorskip("trulens.core")
    metric = metrics()[0]
    value, _ = metric.implementation.load()(**rows[0])
    assert value == pytest.approx(metric(**rows[0])[0])
