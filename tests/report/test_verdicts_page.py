"""Page of a run: figures of all rows, cards of the worst, notes about cut and missing texts."""

from __future__ import annotations

import re
from typing import Any

from tests.report.rows import make_row
from trivet.records import FailedEvaluation
from trivet.report.verdict_files import VerdictRow
from trivet.report.verdicts_page import render_verdicts

ABOUT = {"bundle": "tiny, manifest 012345"}


def rows_of(count: int) -> list[VerdictRow]:
    return [
        make_row(n, n / (count + 1), id_=f"q{n}", metadata={"model": f"m{n % 2}"})
        for n in range(1, count + 1)
    ]


def cards(page: str) -> list[str]:
    return re.findall(r"<h3>row \d+ · (q\d+)", page)


def test_all_rows_are_counted_and_the_worst_come_first() -> None:
    failed = FailedEvaluation("q99", "empty_contexts", "line 99: has no context")
    rows = [*rows_of(20), make_row(21, id_="q99", error=failed)]
    page = render_verdicts(rows, ABOUT, shown=6)
    assert cards(page)[0] == "q1" and len(cards(page)) == 6
    assert "shows 6 of 20 evaluated rows" in page and "leaves out 14" in page
    for words in ("1 of 21 rows have no verdict: 1 empty_contexts.", "line 99: has no context"):
        assert words in page
    whole = render_verdicts(rows, ABOUT)
    assert cards(whole) == [f"q{n}" for n in range(1, 21)]
    assert "leaves out" not in whole and "tiny, manifest 012345" in whole


def test_an_answer_shows_its_spans_sentences_contexts_and_what_was_cut() -> None:
    page = render_verdicts([make_row(context_ids=("doc-7",))], ABOUT)
    card = page.partition('<div id="answers">')[2]
    assert '<mark class="tv-unsupported">was built </mark>' in card
    assert "✗ 0.25" in card and "0.83" not in card  # one number for a sentence
    assert "[1] · doc-7" in card
    assert "<summary>1 context, sentence by sentence</summary>" in card
    assert "relevance, mean 0.30" in card and "completeness" not in card.partition("</article>")[0]
    source = 'class="tv-s tv-r3 tv-u2" data-n="0.35·0.21" id="row-1-1-1"'
    assert f"{source}>It was built of stone in 1817." in card
    assert '<a href="#row-1-1-1" data-places="row-1-1-1">[1]</a>' in card
    for note in ("3 windows of 512 tokens", "7 tokens of the question", "read in 2 chunks"):
        assert note in card
    assert '<span class="kind">unsupported</span>' in card


def test_the_page_opens_with_what_to_do_and_ends_with_the_run() -> None:
    rows = [
        make_row(n, 0.9 if n % 2 else 0.1, question=f"q{n}", metadata={"top_k": 5 + 5 * (n % 2)})
        for n in range(1, 41)
    ]
    page = render_verdicts(rows, ABOUT, remarks=["The run is not finished."])
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles[:3] == ["What to do", "Answers, the worst first", "Verdicts"]
    assert titles[-1] == "The run"
    advice = page.partition("<h2>What to do</h2>")[2].partition("</section>")[0]
    sentences = re.findall(r"<p>(.*?)</p>", advice)
    assert sentences[0] == "The run is not finished."
    assert sentences[1].startswith("20 of 40 answers unsupported. Read them first")
    assert sentences[2].startswith("How often this judge errs was not measured")
    assert sentences[3].startswith(
        "By top_k, faithfulness is lowest for 5 (0.10) and highest for 10"
    )
    assert len(sentences) == 4


def test_the_first_line_counts_every_row_and_links_to_what_is_to_be_read() -> None:
    kinds: list[dict[str, Any]] = [
        {"adherent": False},
        {"adherent": True, "to_check": [{"start": 0, "end": 1, "text": "T", "probability": 0.1}]},
        {"adherent": True},
    ]
    rows = [
        make_row(n, id_=f"q{n}", **{"threshold": 0.5, **kind}) for n, kind in enumerate(kinds, 1)
    ]

    page = render_verdicts(rows, ABOUT)
    (line,) = re.findall(r'<p class="strip-words">(.*?)</p>', page, re.DOTALL)
    words = re.sub("<.*?>", "", line)
    assert words == (
        "1 unsupported (33.3 %) · 1 to check (33.3 %) · 1 supported (33.3 %) · threshold 0.5"
    )
    links = re.findall(r'<a href="#(row-\d)">(q\d)</a>', page)
    assert sorted(links) == [("row-1", "q1"), ("row-2", "q2")]
    assert all(f'id="{anchor}"' in page for anchor, _ in links)
    assert re.findall(r'data-kinds="([\d ]*)"', page).count("1") == 1, "each row is of one kind"


def test_abstentions_and_rows_without_a_response_are_counted() -> None:
    rows = [make_row(1, None, abstains=True), make_row(2, 0.8), make_row(3, None, threshold=0.5)]
    page = render_verdicts(rows, ABOUT)
    assert "1 of 2 answers abstain (50%)" in page
    assert "1 row without a response: relevance alone." in page
    part = page.partition("<h2>Verdicts</h2>")[2].partition("</section>")[0]
    cells = re.findall(
        r"<tr>\s*<td[^>]*>.*?</span>(.*?)</td>\s*<td[^>]*>.*?</span>(.*?)</td>", part
    )
    assert cells == [("supported", "1"), ("abstains", "1"), ("no response", "1")]


def test_the_verdicts_of_a_column_add_up_to_its_rows() -> None:
    span = {"start": 0, "end": 1, "text": "T", "probability": 0.1}
    kinds: list[dict[str, Any]] = [{}, {"to_check": [span]}, {"abstains": True}]
    rows = [make_row(n, 0.8, metadata={"gold": n // 3}, **kind) for n, kind in enumerate(kinds * 2)]
    part = render_verdicts(rows, ABOUT).partition("<h2>By gold</h2>")[2].partition("</section>")[0]
    header = re.findall(r"<th[^>]*>([^<]*)</th>", part)
    assert header[:6] == ["gold", "rows", "failed", "to check", "supported", "abstains"]
    cells = re.findall(r"</span>([^<]*)</td>", part)
    assert cells[:6] == ["0", "3", "0", "1", "1", "1"]


def test_texts_that_differ_from_the_verdict_are_not_shown() -> None:
    row = make_row()
    other = VerdictRow(1, "mill", "Q?", ("Another passage, quite.",), "Other answer.", row.verdict)
    page = render_verdicts([other], ABOUT)
    assert page.count("differ from the evaluated text") == 2
    assert "Other answer" not in page and "1871" in page
