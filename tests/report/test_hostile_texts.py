"""Hostile texts in every field add no tag, attribute or script to a page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.report.rows import HOSTILE, PAYLOADS, Page, make_row
from trivet.report.pages import to_html
from trivet.report.two_runs import render_comparison
from trivet.report.verdict_files import VerdictRow
from trivet.report.verdicts_page import render_verdicts
from trivet.report.write_report import write_report
from trivet.verdict_json import read_evaluation

TAGS = """
    html head meta title style body h1 h2 h3 h4 section p div table thead tbody tr th td figure svg
    text path rect circle polyline form fieldset legend label input select option output span kbd
    article a b i mark small sub sup details summary script
""".split()  # noqa: SIM905 (shorter than a list)
ATTRIBUTES = """
    lang charset name content http-equiv scope class style id hidden aria-label aria-live type value
    checked min max step placeholder tabindex dir open role width height viewbox xmlns font-family
    font-size font-weight fill x y d cx cy r points stroke stroke-opacity stroke-width text-anchor
    transform href
""".split()  # noqa: SIM905 (shorter than a list)
WORDS = re.compile(r"alert|evil|javascript|onerror|onload|expression|url\(|@import")


def check(html: str, scripts: int = 1) -> Page:
    """Refuse foreign tags, attributes and values; return the page."""
    page = Page(html)
    assert {tag for tag, _ in page.tags} <= set(TAGS)
    attributes = [item for _, tag_attributes in page.tags for item in tag_attributes.items()]
    assert {name for name, _ in attributes if not name.startswith("data-")} <= set(ATTRIBUTES)
    links = [value for name, value in attributes if name == "href"]
    assert all(re.fullmatch("#[a-z0-9-]+", link) for link in links)
    assert not [value for _, value in attributes if WORDS.search(value)]
    assert len(page.texts.get("script", [])) == scripts
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\ufeff]", html)
    html.encode()
    return page


def test_a_run() -> None:
    about = {f"{text}name": text for text in PAYLOADS}
    page = check(render_verdicts(HOSTILE, about, title=PAYLOADS[0], remarks=PAYLOADS))
    text = "".join(text for texts in page.texts.values() for text in texts)
    assert text.count("<script>alert(1)</script>") > 100
    assert "{{ 7 * 7 }}" in text and "[U+202E]" in text


def test_a_column_of_hostile_values_is_drawn() -> None:
    for start in range(0, len(PAYLOADS), 20):
        some = PAYLOADS[start : start + 20]
        rows = [make_row(n, metadata={text: text}) for n, text in enumerate(some, start=1)]
        rows += [make_row(99, metadata=dict.fromkeys(some, "other"))]
        page = check(render_verdicts(rows, {}, by=some))
        assert "svg" in page.texts


def test_two_runs_and_a_notebook() -> None:
    abouts = ({PAYLOADS[1]: PAYLOADS[2]}, {PAYLOADS[3]: PAYLOADS[4]})
    check(render_comparison((HOSTILE, HOSTILE), PAYLOADS[5:7], abouts, remarks=PAYLOADS))
    for row in HOSTILE[::2]:
        check(to_html(read_evaluation(row.verdict or {})), scripts=0)


def test_hostile_details_of_a_verdict_are_errors_not_tags() -> None:
    text, verdict = PAYLOADS[2], make_row().verdict or {}
    rows = [
        VerdictRow(number, text, verdict={**verdict, name: wrong})
        for number, name in enumerate(verdict, start=1)
        for wrong in (text, [text], {text: text}, [{text: text, "start": text}])
    ]
    check(render_verdicts(rows, {}))


def test_only_the_page_s_own_script_may_run() -> None:
    page = render_verdicts([make_row()], {})
    (script,) = Page(page).texts["script"]
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = dict(rule.split(" ", 1) for rule in policy.replace("&#39;", "'").split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    assert not re.search(r"innerHTML|eval|document\.write|fetch|import", script)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\ud800b", "a[U+D800]b"), ("a\u202eb", "a[U+202E]b"), ("a\r\n\rb", "a\n\nb")],
)
def test_odd_texts_are_readable_in_the_written_page(text: str, shown: str, tmp_path: Path) -> None:
    row = make_row(question=text, response=text * 5, contexts=(text,), id_=text)
    texts = {"question": text, "response": text * 5, "contexts": [text]}
    verdicts, page = tmp_path / "v.jsonl", tmp_path / "page.html"
    record = {"row": 1, **(row.verdict or {}), "texts": texts, "metadata": {"column": text}}
    verdicts.write_text(json.dumps(record), encoding="utf-8")
    write_report([verdicts], page)
    checked = check(page.read_text(encoding="utf-8"))
    assert shown in checked.texts["p"] and shown in checked.texts["span"]  # question and context
    assert f"row 1 · {shown}" in checked.texts["h3"][0]
    assert f"column: {shown}" in checked.texts["p"]
