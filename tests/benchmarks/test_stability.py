"""The benchmark of stability counts flips by hand, and changes only what it says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import stability
from benchmarks.stability import Flips, Verdicts, count_flips, in_other_form, permuted
from trivet.records import Evaluation, FailedEvaluation, LabelledExample, Labels, RagExample, Span
from trivet.verdict_json import read_evaluation


def verdict(faithfulness: float | None, adherent: bool | None) -> Evaluation:
    return read_evaluation({"faithfulness": faithfulness, "adherent": adherent})


def test_flips_are_counted_in_both_directions_and_failures_left_out() -> None:
    good, bad, empty = verdict(0.75, True), verdict(0.25, False), verdict(None, None)
    failed = FailedEvaluation(None, "window", "too long")
    before: Verdicts = [good, good, bad, good, empty, failed]
    after: Verdicts = [good, bad, good, replace(bad, faithfulness=0.5), empty, good]
    assert count_flips(before, after) == Flips(4, 2, 1, (0 + 0.5 + 0.5 + 0.25) / 4, 0.5)


def test_a_permutation_moves_contexts_with_their_sentences() -> None:
    contexts = tuple(f"Well {number}." for number in range(6))
    sentences = tuple((Span(0, number),) for number in range(6))
    example = RagExample("?", contexts, "Well 3.", context_sentences=sentences)
    row = LabelledExample(example, Labels(adherent=True), "mine", "g")
    (moved,) = permuted([row])
    assert moved.contexts != contexts and sorted(moved.contexts) == sorted(contexts)
    pairs = zip(moved.contexts, moved.context_sentences or (), strict=True)
    assert set(pairs) == set(zip(contexts, sentences, strict=True))


def test_another_form_begins_with_a_heading_and_has_no_commas_in_numbers() -> None:
    example = RagExample("?", ("12,000.",), "In 1790, 12,000 of 1,25.", None, None, (Span(0, 24),))
    (changed,) = in_other_form([LabelledExample(example, Labels(adherent=True), "mine", "g")])
    assert changed == RagExample("?", ("12,000.",), "## In 1790, 12000 of 1,25.")


def test_a_second_run_and_white_space_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {
            "question": f"Who is {name}?",
            "contexts": [f"{name} keeps the mill.", f"{name} is old."],
            "response": f"{name} keeps the mill.",
            "group": name,
            "labels": {"adherent": True},
        }
        for name in ("Jonas", "Anna", "Karl")
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    stability.main(["--data", f"jsonl:{path}", "--split", "all"])
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    found = {line[0]: line[1:] for line in lines if len(line) == 7}
    assert {*found} >= {"again", "white space", "other form", "permuted", "foreign passage", "fp32"}
    for change in ("again", "white space"):
        assert found[change] == ["3", "0", "0", "0.0%", "0.0000", "0.000"]
