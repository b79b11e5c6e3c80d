"""The changed facts give what the README says of them."""

from __future__ import annotations

import json
from pathlib import Path

from trivet.evaluation.evaluator import Evaluator

PAIRS = Path(__file__).parents[1] / "benchmarks" / "changed_facts.jsonl"
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_changed_facts_are_counted(embedded: Evaluator) -> None:
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    judged = {
        kind: [embedded.evaluate(one["question"], one["contexts"], one[kind]) for one in pairs]
        for kind in ("right", "wrong")
    }
    found = sum(verdict.adherent is False for verdict in judged["wrong"])
    passed = sum(verdict.adherent is True for verdict in judged["right"])
    said = f"it finds {found}, and {passed} of the ten right answers pass"
    assert len(pairs) == 10 and said in README, said
