"""Pages show escaped texts; nothing runs or loads."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tests.report.rows import Page
from trivet.report.pages import Section, render_page, shown_text

DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" role="img"><title>a &amp; b</title>'
    "<text>one</text></svg>"
)


def test_a_page_shows_everything_given() -> None:
    section = Section(
        "Figures",
        paragraphs=["One.", "Two."],
        header=("measure", "value", "95 % interval"),
        rows=[("auroc", "0.812", "0.700 to 0.900"), ("rmse", "-", "-")],
        svgs=[DRAWING],
    )
    page = render_page("Report", [section, Section("Empty")])
    parsed = Page(page)
    assert parsed.texts["h1"] == ["Report"]
    assert parsed.texts["h2"] == ["Figures", "Empty"]
    assert parsed.texts["p"] == ["One.", "Two."]
    assert parsed.texts["th"] == ["measure", "value", "95 % interval"]
    assert parsed.texts["td"] == ["auroc", "0.812", "0.700 to 0.900", "rmse", "-", "-"]
    classes = [attributes.get("class") for tag, attributes in parsed.tags if tag in ("th", "td")]
    assert classes == [None, "number", "number"] * 3
    assert DRAWING in page
    assert "<table" not in page.partition("Empty</h2>")[2]


@given(st.text(min_size=1))
def test_any_text_is_shown_as_text(text: str) -> None:
    parsed = Page(render_page(text, [Section(text, [text], [text], [[text]])]))
    for tag in ("title", "h1", "h2", "p", "th", "td"):
        assert parsed.texts[tag] == [shown_text(text)]


def test_a_page_runs_nothing_and_loads_nothing() -> None:
    page = render_page("<script>alert(1)</script>", [Section("x", svgs=[DRAWING])])
    parsed = Page(page)
    assert {"script", "link", "img", "iframe"} & {tag for tag, _ in parsed.tags} == set()
    assert not any({"src", "href"} & set(attributes) for _, attributes in parsed.tags)
    policies = [attributes.get("content", "") for tag, attributes in parsed.tags if tag == "meta"]
    assert any("default-src 'none'" in policy for policy in policies)
    assert not any("script-src" in policy for policy in policies)
    used = set(re.findall(r"var\((--[\w-]+)\)", page))
    assert used <= set(re.findall(r"(--[\w-]+):", page))


DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@given(st.text())
def test_no_control_or_direction_mark_is_left(text: str) -> None:
    shown = shown_text(text)
    shown.encode()
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs")
        assert unicodedata.bidirectional(character) not in DIRECTIONS
