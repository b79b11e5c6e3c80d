"""The page of a test: every figure, the curves where there are two classes, what was left out."""

from __future__ import annotations

import re

from trivet.data.labelled.source_report import RowError, SourceReport
from trivet.measures.lengths import measure_by_length
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.records import (
    Evaluation,
    FailedEvaluation,
    LabelledExample,
    Labels,
    RagExample,
    SentenceVerdict,
)
from trivet.report.measures_page import render_measures

ABOUT = {"bundle": "tiny", "backend": "half", "data": "jsonl:<rows>", "split": "all"}


def judged(source: str, number: int, adherent: bool, faithfulness: float) -> Prediction:
    example = RagExample(question="Hot?", contexts=("Cone six.",), response="Six.", id=str(number))
    verdict = Evaluation(
        id=str(number),
        faithfulness=faithfulness,
        supported_share=1.0,
        relevance=0.5,
        utilization=0.5,
        completeness=0.5,
        adherent=faithfulness >= 0.5,
        unsupported=(),
        sentences=(SentenceVerdict(0, 4, "Six.", faithfulness, faithfulness >= 0.5),),
        contexts=(),
        windows=1,
        window_size=512,
        cut_question_tokens=0,
        response_chunks=1,
        replaced_characters=0,
    )
    labels = Labels(adherent=adherent, unsupported=() if adherent else None)
    return Prediction(LabelledExample(example, labels, source, f"{source} {number}"), verdict)


def rows_of(source: str, count: int = 12) -> list[Prediction]:
    return [judged(source, n, n % 3 > 0, 0.1 + 0.8 * n / count) for n in range(count)]


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


def headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_a_source_has_its_figures_and_its_curves() -> None:
    page = page_of(rows_of("logs"))
    assert headings(page) == ["Evaluated rows", "logs"]
    assert titles(page) == [
        "hallucination: ROC, with its area",
        "hallucination: reliability",
        "support: reliability",
    ]
    for word in (
        "hallucination_auroc",
        "support_ece",
        "Bundle: tiny.",
        "Data: jsonl:&lt;rows&gt;.",
    ):
        assert word in page
    assert "[0, 99) of 9 characters" in page
    assert "line &lt;3&gt;" in page


def test_what_failed_is_told_by_its_reason() -> None:
    rows = rows_of("logs")
    failed = FailedEvaluation("x", "too_long", "has 9 <million> characters")
    page = page_of(
        [*rows, Prediction(rows[0].example, failed), Prediction(rows[1].example, failed)]
    )
    assert "12 judged, 2 failed" in page
    assert "x: has 9 &lt;million&gt; characters" in page


def test_one_class_has_no_roc_curve() -> None:
    page = page_of([judged("logs", n, True, 0.9) for n in range(4)])
    assert titles(page) == ["hallucination: reliability", "support: reliability"]


def test_a_family_is_drawn_together_few_curves_in_a_plot() -> None:
    rows = [row for number in range(7) for row in rows_of(f"halubench/set{number}")]
    page = page_of(rows)
    assert headings(page)[-2:] == ["halubench/pooled", "halubench/mean"]
    mean = page.partition("<h2>halubench/mean</h2>")[2]
    assert titles(f"<title></title>{mean}") == ["hallucination: ROC, with its area"] * 2
    assert all(f"halubench/set{number} " in mean for number in range(7))


def test_lengths_have_a_table_of_their_own() -> None:
    page = page_of(rows_of("logs", 24), {"0-5k": 12, "5k-16k": 12, "over 16k": 0})
    before, _, after = page.partition("<h2>By length</h2>")
    assert "0-5k: 12, 5k-16k: 12, over 16k: 0" in after
    assert "logs, 5k-16k" in after
    assert "hallucination_auroc_change" in after
    assert "_change" not in before


def test_a_name_that_xml_cannot_hold_is_drawn_all_the_same() -> None:
    assert "odd\ufffdname" in page_of(rows_of("odd\x00name"))
