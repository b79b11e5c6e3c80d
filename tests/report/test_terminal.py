"""Verdicts in a terminal: marks without colours, no control characters, shortened texts."""

from __future__ import annotations

import io
import re
from typing import Any

from rich.console import Console

from tests.report.rows import make_row
from trivet.bundle.schema import ScoreInfo
from trivet.commands.info import render_info
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
    for words in ("not adherent", "0.250    not supported", "mill [b]", "[red]is[/red]"):
        assert words in text
    for note in ("7 tokens of the question", "read in 2 chunks", "1 characters could not be"):
        assert note in text


def test_every_unsupported_span_is_in_brackets(judge: Evaluator) -> None:
    response = "The old mill is red. The boat was made of wood. The town is new."
    verdict = judge.evaluate("What?", ["The mill is old."], response)
    assert verdict.unsupported
    text = printed(render_verdict(response, ["The mill is old."], verdict))
    for span in verdict.unsupported:
        assert f"[{span.text}]" in text
    assert text.replace("[", "").replace("]", "").count(response) == 1
    assert "\x1b[1;31m" in printed(render_verdict(response, ["x"], verdict), colours=True)


def test_an_unsupported_sentence_is_followed_by_its_nearest_source() -> None:
    row = make_row(contexts=("It is red.", "The mill was built of stone in 1817."))
    lines = printed(read_evaluation(row.verdict or {}), width=120).splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("unsupported "))
    assert lines[place + 1] == "    nearest [1] The mill was built of stone in 1817."


def test_without_a_response_there_are_dashes(judge: Evaluator) -> None:
    verdict = judge.evaluate("What?", ["The mill."], "")
    assert printed(render_verdict("", ["The mill."], verdict)).split()[:2] == ["faithfulness", "-"]


def test_a_shortened_text_ends_with_an_ellipsis(judge: Evaluator) -> None:
    response = "The old mill by the river was built of stone and wood by two brothers. It is red."
    verdict = judge.evaluate("What?", [response], response)
    text = printed(render_verdict(response, [response], verdict), width=80)
    assert "It is red." in text
    start = r"The old mill by the river[a-z ]*…"
    assert len(re.findall(start, text)) == 2  # the sentence and the context
    assert max(map(len, text.splitlines())) <= 80


def test_info_groups_scores_by_data_set_with_precisions_side_by_side(judge: Evaluator) -> None:
    about = {"data": "ragbench/[mine]", "split": "dev", "date": "2020-01-01", "command": "test"}
    values = {"relevance_rmse": 0.1234, "span_f1": 0.5}
    precisions: list[dict[str, Any]] = [
        {"precision": "fp32", "low": None, "high": None},
        {"precision": "int8", "low": 0.1, "high": 0.2},
    ]
    scores = tuple(
        ScoreInfo.model_validate({**about, **one, "measure": measure, "value": value, "n": 7})
        for measure, value in values.items()
        for one in precisions
    )
    info = judge.bundle.info.model_copy(update={"scores": scores})
    lines = [line.split() for line in printed(render_info(info, "here"), width=80).splitlines()]
    titles = ["Model", "Windows", "Thresholds", "Graphs"]
    assert [line[0] for line in lines if line and line[0] in titles] == titles
    assert lines[-4:] == [
        ["measure", "rows", "fp32", "int8"],
        ["ragbench/[mine],", "dev"],
        ["relevance_rmse", "7", "0.123", "0.123", "(0.100-0.200)"],
        ["span_f1", "7", "0.500", "0.500", "(0.100-0.200)"],
    ]
