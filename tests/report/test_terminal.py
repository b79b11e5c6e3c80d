"""Verdicts in a terminal: marks without colours, no control characters, shortened texts."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.report.rows import make_row, unmarked_verdict
from trivet.evaluation.evaluator import Evaluator
from trivet.report.terminal import render_verdict, visible
from trivet.verdict_json import read_evaluation


def printed(what: object, colours: bool = False, width: int = 120) -> str:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=colours, highlight=False).print(what)
    return file.getvalue()


def test_controls_and_direction_marks_are_replaced() -> None:
    assert visible("a\x1b[31mb\x07\u202ec\ud800\u200bd") == "a\ufffd[31mb\ufffd\ufffdc\ufffd\ufffdd"
    assert visible("line\n\ttab 👩\u200d🌾 é") == "line\n\ttab 👩\u200d🌾 é"


def test_rich_shows_a_verdict_without_control_characters_or_markup() -> None:
    row = make_row(response="The \x1b]0;x\x07 mill [b].", contexts=("It [red]is[/red] \x1b[2J",))
    text = printed(read_evaluation(row.verdict or {}))
    assert "\x1b" not in text and "\x07" not in text
    for words in ("0.400  unsupported", "0.250    unsupported", "mill [b]", "[red]is[/red]"):
        assert words in text
    for note in ("7 tokens of the question", "read in 2 chunks", "1 characters could not be"):
        assert note in text
    assert "utilization" in text and "completeness" not in text


def test_every_unsupported_span_is_in_brackets(judge: Evaluator) -> None:
    response = "The old mill is red. The boat was made of wood. The town is new."
    verdict = judge.evaluate("What?", ["The mill is old."], response)
    assert verdict.unsupported
    text = printed(render_verdict(response, ["The mill is old."], verdict))
    for span in verdict.unsupported:
        assert f"[{span.text}]" in text
    assert text.replace("[", "").replace("]", "").count(response) == 1
    assert "\x1b[1;31m" in printed(render_verdict(response, ["x"], verdict), colours=True)


CONTEXTS = ("The mill was built of stone.", "It is red.", "Its date is 1817.")


@pytest.mark.parametrize(("supported", "name"), [(True, "source"), (False, "nearest")])
def test_each_sentence_is_followed_by_its_sources(supported: bool, name: str) -> None:
    texts = ["The stone mill of 1817.", "Quite another matter.", "It is red."]
    verdict = unmarked_verdict(texts, [[text] for text in CONTEXTS], supported)
    lines = [line.rstrip().split(maxsplit=1) for line in printed(verdict).splitlines()]
    line_number = next(n for n, line in enumerate(lines) if line and line[-1].endswith(texts[0]))
    assert lines[line_number + 1 : line_number + 3] == [
        [name, f"[1] {CONTEXTS[0]}"],
        [name, f"[3] {CONTEXTS[2]}"],
    ]
    assert lines[line_number + 3][-1].endswith(texts[1])
    assert lines[line_number + 4][-1].endswith(texts[2])
    assert lines[line_number + 5] == [name, f"[2] {CONTEXTS[1]}"]
