"""The README's examples print what stands below them."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

from trivet.evaluation.evaluator import Evaluator
from trivet.report.reasons import find_reasons

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def block_and_next(kind: str, word: str) -> tuple[str, str]:
    """Return the first block of a kind with a word in it, and the block below it."""
    place = next(n for n, (own, text) in enumerate(BLOCKS) if own == kind and word in text)
    return BLOCKS[place][1], BLOCKS[place + 1][1]


def test_one_answer_in_python_prints_what_stands_below_it() -> None:
    code, printed = block_and_next("python", "trivet.evaluate(")
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(code, names)  # the block of our own README
    assert said.getvalue() == printed


def test_the_terminals_reason_is_that_of_the_text(embedded: Evaluator) -> None:
    command = block_and_next("bash", "--question")[0]
    told = re.findall(r'--(\w+) "([^"]*)"', command)
    contexts = [text for name, text in told if name == "context"]
    texts = dict(told)
    verdict = embedded.evaluate(texts["question"], contexts, texts["response"])
    (reason,) = re.findall(r'why the year is marked: "([^"]*)"', README)
    assert reason in map(str, find_reasons(verdict, contexts))


def test_one_answer_over_http_gives_what_stands_below_it(embedded: Evaluator) -> None:
    command, printed = block_and_next("bash", "/v1/evaluate")
    (body,) = re.findall(r"-d '(\{.*?\})'", command)
    verdict = embedded.evaluate(**json.loads(body))
    found = {"adherent": verdict.adherent, "unsupported": [s.text for s in verdict.unsupported]}
    assert json.loads(printed) == found
