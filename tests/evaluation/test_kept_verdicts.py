"""Kept verdicts: each text is judged once, and a stopped run is resumed."""

from __future__ import annotations

import json
from pathlib import Path

from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.kept_verdicts import predict_sets
from trivet.records import Evaluation, FailedEvaluation, LabelledExample, Labels, RagExample


def rows(*responses: str) -> list[LabelledExample]:
    context = ("A kiln reaches cone six.",)
    return [
        LabelledExample(RagExample("How hot?", context, text), Labels(), "s", "g")
        for text in responses
    ]


def faithfulness(evaluator: Evaluator, folder: Path | None, *responses: str) -> list[float | None]:
    (judged,) = predict_sets(evaluator, {"set": rows(*responses)}, folder).values()
    verdicts = [row.evaluation for row in judged]
    return [verdict.faithfulness for verdict in verdicts if isinstance(verdict, Evaluation)]


def test_kept_verdicts_are_read_and_not_judged_again(embedded: Evaluator, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "kept"
    hot, cold = "It reaches cone six.", "It reaches cone two."
    judged = faithfulness(embedded, folder, hot, cold, hot)
    assert judged == faithfulness(embedded, None, hot, cold, hot)
    (file,) = folder.iterdir()
    first, second = file.read_text(encoding="utf-8").splitlines()
    # Another number shows that the line is read; the second is cut off as by a stop.
    changed = json.dumps(json.loads(first) | {"faithfulness": 0.125})
    file.write_text(f"{changed}\n{second[:40]}", encoding="utf-8")
    assert faithfulness(embedded, folder, cold, hot) == [judged[1], 0.125]
    assert file.read_text(encoding="utf-8") == f"{changed}\n{second}\n"


def test_a_failure_is_tried_again(embedded: Evaluator, tmp_path: Path) -> None:
    empty = LabelledExample(RagExample("q", (), "It is hot."), Labels(), "s", "g")
    for _ in range(2):
        (row,) = predict_sets(embedded, {"set": [empty]}, tmp_path)["set"]
        assert isinstance(row.evaluation, FailedEvaluation)
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b""
