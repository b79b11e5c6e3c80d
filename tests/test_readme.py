"""The README's call over HTTP and its changed facts give what it says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from trivet.evaluation.evaluator import Evaluator

PAIRS = Path(__file__).parents[1] / "benchmarks" / "changed_facts.jsonl"
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def block_with(word: str) -> str:
    """Return the first block of commands with a word in it."""
    return str(next(text for own, text in BLOCKS if own == "bash" and word in text))


def test_one_answer_over_http_gives_the_comment_below_it(embedded: Evaluator) -> None:
    command, _, printed = block_with("/v1/evaluate").partition("# ")
    (body,) = re.findall(r"-d '(\{.*?\})'", command)
    verdict = embedded.evaluate(**json.loads(body))
    found = {"adherent": verdict.adherent, "unsupported": [s.text for s in verdict.unsupported]}
    assert json.loads(printed) == found


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
