"""The README's examples of a command and of a call give what it says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from trivet.evaluation.evaluator import Evaluator
from trivet.report.reasons import find_reasons

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def block_with(word: str) -> str:
    """Return the first block of commands with a word in it."""
    return next(text for own, text in BLOCKS if own == "bash" and word in text)


def test_the_terminals_reason_is_that_of_the_text(embedded: Evaluator) -> None:
    command = block_with("--question")
    told = re.findall(r'--(\w+) "([^"]*)"', command)
    contexts = [text for name, text in told if name == "context"]
    texts = dict(told)
    verdict = embedded.evaluate(texts["question"], contexts, texts["response"])
    (reason,) = re.findall(r'why the year is marked: "([^"]*)"', README)
    assert reason in map(str, find_reasons(verdict, contexts))


def test_one_answer_over_http_gives_the_comment_below_it(embedded: Evaluator) -> None:
    command, _, printed = block_with("/v1/evaluate").partition("# ")
    (body,) = re.findall(r"-d '(\{.*?\})'", command)
    verdict = embedded.evaluate(**json.loads(body))
    found = {"adherent": verdict.adherent, "unsupported": [s.text for s in verdict.unsupported]}
    assert json.loads(printed) == found
