"""Page of `trivet test`: figures, curves, dropped and failed rows."""

from __future__ import annotations

import re

from tests.report.rows import verdict_on
from trivet.labelled.source_report import RowError, SourceReport
from trivet.measures.lengths import measure_by_length
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.records import FailedEvaluation, LabelledExample, Labels, RagExample
from trivet.report.measures_page import render_measures

ABOUT = {"bundle": "tiny", "backend": "half", "data": "jsonl:<rows>", "split": "all"}


def prediction(source: str, number: int, adherent: bool, faithfulness: float) -> Prediction:
    example = RagExample(question="Hot?", contexts=("Cone six.",), response="Six.", id=str(number))
    verdict = verdict_on((), "Six.", faithfulness, str(number))
    labels = Labels(adherent=adherent, unsupported=() if adherent else None)
    return Prediction(LabelledExample(example, labels, source, f"{source} {number}"), verdict)


def rows_of(source: str, count: int = 12) -> list[Prediction]:
    return [prediction(source, n, n % 3 > 0, 0.1 + 0.8 * n / count) for n in range(count)]


def page_of(rows: list[Prediction], lengths: dict[str, int] | None = None) -> str:
    report = SourceReport("jsonl:rows", rows=len(rows) + 2, kept=len(rows))
    report.drop(RowError("unsupported leaves its text", "[0, 99) of 9 characters"), "line 7")
    report.note("overlapping spans were merged", "line <3>", 2)
    figures = measure(rows, resamples=20)
    if lengths is not None:
        tokens = [100 if n % 2 else 9_000 for n in range(len(rows))]
        figures += measure_by_length(rows, tokens, resamples=20)
    return render_measures(rows, figures, report, ABOUT, lengths)


def titles(page: str) -> list[str]:
    return re.findall(r"<title>(.*?)</title>", page)[1:]


def test_a_source_has_its_figures_and_its_curves() -> None:
    page = page_of(rows_of("logs"))
    assert re.findall(r"<h2>(.*?)</h2>", page) == ["Evaluated rows", "logs"]
    assert titles(page) == [
        "hallucination: ROC, with its area",
        "hallucination: reliability",
        "support: reliability",
    ]
    for words in ("hallucination_auroc", "support_ece", "Bundle: tiny.", "jsonl:&lt;rows&gt;."):
        assert words in page
    assert "[0, 99) of 9 characters" in page and "line &lt;3&gt;" in page


def test_failures_are_listed_by_code() -> None:
    rows = rows_of("logs")
    failed = FailedEvaluation("x", "too_long", "has 9 <million> characters")
    page = page_of([*rows, *(Prediction(row.example, failed) for row in rows[:2])])
    assert "12 evaluated, 2 failed" in page
    assert "x: has 9 &lt;million&gt; characters" in page
