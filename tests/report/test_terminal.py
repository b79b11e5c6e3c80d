"""What a person reads: marks that survive without colours, no text that commands the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from trivet.bundle.bundle import ScoreInfo
from trivet.commands.bundle_summary import render_info
from trivet.evaluation.evaluator import Evaluator
from trivet.records import RagExample
from trivet.report.terminal import render_verdict, visible


def printed(what: object, colours: bool = False) -> str:
    file = io.StringIO()
    Console(file=file, width=120, force_terminal=colours, highlight=False).print(what)
    return file.getvalue()


def test_controls_and_direction_marks_are_replaced() -> None:
    assert visible("a\x1b[31mb\x07\u202ec\ud800\u200bd") == "a\ufffd[31mb\ufffd\ufffdc\ufffd\ufffdd"
    assert visible("line\n\ttab 👩\u200d🌾 é") == "line\n\ttab 👩\u200d🌾 é"


def test_an_answer_cannot_command_the_terminal(judge: Evaluator) -> None:
    example = RagExample(
        "What?", ("The \x1b[2J mill [red]is[/red].",), "The \x1b]0;x\x07 mill [b]."
    )
    verdict = judge.evaluate(example.question, example.contexts, example.response)
    text = printed(render_verdict(example.response, example.contexts, verdict))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]is[/red]" in text


def test_every_unsupported_span_is_in_brackets(judge: Evaluator) -> None:
    response = "The old mill is red. The boat was made of wood. The town is new."
    verdict = judge.evaluate("What?", ["The mill is old."], response)
    assert verdict.unsupported
    text = printed(render_verdict(response, ["The mill is old."], verdict))
    for span in verdict.unsupported:
        assert f"[{span.text}]" in text
    assert text.replace("[", "").replace("]", "").count(response) == 1
    assert "\x1b[1;31m" in printed(render_verdict(response, ["x"], verdict), colours=True)


def test_what_was_cut_is_said(judge: Evaluator) -> None:
    question, response = "What mill? " * 30, "The mill \ud800 is old. " * 30
    verdict = judge.evaluate(question, ["The mill."], response)
    text = printed(render_verdict(response, ["The mill."], verdict))
    assert f"{verdict.cut_question_tokens} tokens of the question did not fit" in text
    assert f"read in {verdict.response_chunks} chunks" in text
    assert "30 characters could not be encoded" in text


def test_without_a_response_there_are_dashes(judge: Evaluator) -> None:
    verdict = judge.evaluate("What?", ["The mill."], "")
    lines = printed(render_verdict("", ["The mill."], verdict)).splitlines()
    assert lines[0].split() == ["faithfulness", "-"]


def test_scores_stand_in_a_table(judge: Evaluator) -> None:
    score = ScoreInfo(
        measure="relevance_rmse",
        data="ragbench/[mine]",
        split="dev",
        value=0.1234,
        low=None,
        high=None,
        n=7,
        date="2020-01-01",
        command="trivet test",
        precision="int8",
    )
    text = printed(render_info(judge.bundle.info.model_copy(update={"scores": (score,)}), "here"))
    assert "ragbench/[mine]" in text
    assert "0.123" in text
