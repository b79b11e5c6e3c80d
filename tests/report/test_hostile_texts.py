"""Fifty hostile texts in every field leave nothing in a page but our own tags."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from html.parser import HTMLParser

import pytest

from trivet.records import FailedEvaluation
from trivet.report.cards import to_html
from trivet.report.comparison_page import render_comparison
from trivet.report.verdict_files import VerdictRow
from trivet.report.verdicts_page import render_verdicts
from trivet.verdict_json import read_evaluation

MakeRow = Callable[..., VerdictRow]

TAGS = """
    html head meta title style body h1 h2 h3 h4 section p
    div table thead tbody tr th td figure svg text path rect
    circle polyline form fieldset legend label input select option output span kbd
    article b i mark sub sup details summary script
""".split()  # noqa: SIM905 (a list of fifty lines would hide what it is)
ATTRIBUTES = """
    lang charset name content http-equiv scope class style id hidden aria-label aria-live
    type value checked min max step placeholder tabindex dir open role width
    height viewbox xmlns font-family font-size font-weight fill x y d cx cy
    r points stroke stroke-opacity stroke-width text-anchor
""".split()  # noqa: SIM905 (a list of fifty lines would hide what it is)
WORDS = re.compile(r"alert|evil|javascript|onerror|onload|expression|url\(|@import")


class Page(HTMLParser):
    """Keeps every tag and attribute, and the text of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.values: list[str] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self._in = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs if not name.startswith("data-")}
        self.values += [value or "" for _, value in attrs]
        self._in = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def hostile(make_row: MakeRow, payloads: Iterable[str]) -> list[VerdictRow]:
    """Return a row for each text that holds it everywhere, and one that failed with it."""
    rows = []
    for number, text in enumerate(payloads, start=1):
        names = {
            "id_": text + str(number),
            "metadata": {"model": text if number < 15 else "m", f"column {text}": number % 2},
        }
        rows.append(
            make_row(
                2 * number,
                number / 100,
                question=text,
                contexts=(text, f"{text} and {text}"),
                response=f"{text}{text}",
                context_ids=(text, None),
                texts=number % 2 == 0,
                **names,
            )
        )
        failed = FailedEvaluation(text, text, f"line 3: {text}")
        rows.append(make_row(2 * number + 1, error=failed, **names))
    return rows


def check(page: str, scripts: int = 1) -> Page:
    found = Page(page)
    assert found.tags - set(TAGS) == set()
    assert found.attributes - set(ATTRIBUTES) == set()
    assert not [value for value in found.values if WORDS.search(value)]
    assert len(found.scripts) == scripts
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\ufeff]", page)
    page.encode()
    return found


def test_a_run(make_row: MakeRow, payloads: tuple[str, ...]) -> None:
    rows = hostile(make_row, payloads)
    about = {f"{text}name": text for text in payloads}
    found = check(render_verdicts(rows, about, title=payloads[0], remarks=payloads))
    text = "".join(found.texts)
    assert text.count("<script>alert(1)</script>") > 100  # shown as the text that it is
    assert "{{ 7 * 7 }}" in text and "[U+202E]" in text


def test_a_column_of_hostile_values_is_drawn(make_row: MakeRow, payloads: tuple[str, ...]) -> None:
    for start in range(0, len(payloads), 20):
        some = payloads[start : start + 20]
        rows = [make_row(n, metadata={text: text}) for n, text in enumerate(some, start=1)]
        rows += [make_row(99, metadata=dict.fromkeys(some, "other"))]
        found = check(render_verdicts(rows, {}, by=some))
        assert "svg" in found.tags


def test_two_runs(make_row: MakeRow, payloads: tuple[str, ...]) -> None:
    rows = hostile(make_row, payloads)
    names = (payloads[0], payloads[10])
    abouts = ({payloads[1]: payloads[2]}, {payloads[3]: payloads[4]})
    check(render_comparison((rows, rows), names, abouts, remarks=payloads))


def test_a_notebook(make_row: MakeRow, payloads: tuple[str, ...]) -> None:
    for row in hostile(make_row, payloads)[::2]:
        assert row.verdict is not None
        check(to_html(read_evaluation(row.verdict)), scripts=0)


def test_hostile_details_of_a_verdict_are_errors_not_tags(
    make_row: MakeRow, payloads: tuple[str, ...]
) -> None:
    text = payloads[2]
    rows: list[VerdictRow] = []
    for name, value in (make_row().verdict or {}).items():
        for wrong in (text, [text], {text: text}, [{text: text, "start": text}]):
            verdict = {**(make_row().verdict or {}), name: wrong}
            rows.append(VerdictRow(len(rows) + 1, text, verdict=verdict))
        assert value != text
    check(render_verdicts(rows, {}))


def test_only_the_page_s_own_script_may_run(make_row: MakeRow) -> None:
    page = render_verdicts([make_row()], {})
    (script,) = Page(page).scripts
    policy = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = dict(rule.split(" ", 1) for rule in policy.replace("&#39;", "'").split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    assert not re.search(r"innerHTML|eval|document\.write|fetch|import", script)


@pytest.mark.parametrize("text", ["\ud800", "a\u202eb", "\r\n\r"])
def test_odd_texts_reach_the_file(make_row: MakeRow, text: str) -> None:
    row = make_row(question=text, response=text * 5, contexts=(text,), id_=text)
    render_verdicts([row], {json.dumps(text): text}).encode()
