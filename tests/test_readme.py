"""The README's figures: those of the changed facts are counted, those of speed are the page's."""

from __future__ import annotations

import json
import re
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


def test_the_speed_is_that_of_the_page() -> None:
    said = re.search(r"two cores of an (.*), ([\d-]+) \| ([\d.]+); ([\d.]+)", README)
    page = (Path(__file__).parents[1] / "docs" / "performance.md").read_text(encoding="utf-8")
    rows = page.partition("## Seconds per request")[2].partition("\n\n##")[0]
    assert said is not None
    cpu, date, short, long = said.groups()
    cpu = cpu.replace(" with", ",")
    row = rf"^\| {date}, {cpu}\b[^|]*\| 4,096 \| {short} s .*\n\| +\| 16,384 \| {long} s "
    assert re.search(row, rows, re.MULTILINE), row
