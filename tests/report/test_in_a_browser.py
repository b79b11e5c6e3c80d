"""Pages in Chromium: no dialog, no request; filters, keys, paper, narrow and dark screens."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import IN_CHROMIUM, Tab, open_tab
from tests.report.rows import HOSTILE, PAYLOADS, make_row
from trivet.report.two_runs import render_comparison
from trivet.report.verdicts_page import render_verdicts

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with open_tab(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


ROWS = [
    make_row(n, n / 31, id_=f"q{n}", relevance=1 - n / 31, metadata={"model": f"m{n % 3}"})
    for n in range(1, 31)
]


def check_quiet(tab: Tab, file: Path) -> None:
    """Check that the page loaded nothing else and that nothing was blocked."""
    sent = [event for name, event in tab.events if name == "Network.requestWillBeSent"]
    assert [event["request"]["url"] for event in sent] == [file.as_uri()]
    assert not {"Log.entryAdded", "Runtime.exceptionThrown"} & {name for name, _ in tab.events}
    assert tab.ask("document.scripts.length") == 1


VISIBLE = "[...document.querySelectorAll('#answers > article')].filter(c => !c.hidden)"


def test_hostile_texts_stay_texts(tab: Tab, tmp_path: Path) -> None:
    about = dict.fromkeys(PAYLOADS, "x")
    pages = (
        render_verdicts(HOSTILE, about, title=PAYLOADS[0], remarks=PAYLOADS),
        render_comparison((HOSTILE, HOSTILE), PAYLOADS[:2], ({}, {}), remarks=PAYLOADS),
    )
    for number, page in enumerate(pages):
        file = tmp_path / f"page-{number}.html"
        tab.open(page, file)
        tab.ask("document.querySelectorAll('details').forEach(part => part.open = true)")
        for key in "jjoko":
            tab.press(key)
        check_quiet(tab, file)
        assert tab.ask("document.querySelectorAll('img, iframe, link, object').length") == 0
        links = "[...document.links].map(link => link.getAttribute('href'))"
        assert tab.ask(f"{links}.every(to => /^#[-a-z0-9]+$/.test(to))") is True
        attributes = "[...document.querySelectorAll('*')].every(e => ![...e.attributes]"
        assert tab.ask(f"{attributes}.some(a => a.name.startsWith('on')))")


def test_filters_orders_and_keys(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    tab.open(render_verdicts(ROWS, {"bundle": "tiny"}), file)
    check_quiet(tab, file)
    shown = "document.getElementById('shown').textContent"
    form = "document.getElementById('filters')"
    assert tab.ask(shown) == "30 of 30"
    change = "dispatchEvent(new Event('input', {bubbles: true}))"

    def choose(name: str, value: str) -> None:
        tab.ask(f"(f => {{ f.elements['{name}'].value = '{value}'; f.{change}; }})({form})")

    assert tab.ask(f"{form}.hidden") is False
    tab.ask(f"{form}.elements.kind[1].click()")  # unsupported: faithfulness below one half
    assert tab.ask(shown) == "15 of 30"
    choose("most", "0.1")
    assert tab.ask(shown) == "3 of 30"
    tab.ask(f"{form}.elements.kind[0].click()")
    tab.ask(f"{form}.querySelector('[data-column]').value = '1'")
    choose("most", "0.5")
    assert tab.ask(shown) == "5 of 30"
    tab.ask(f"{form}.querySelector('[data-column]').value = ''")
    choose("most", "")
    assert tab.ask(shown) == "30 of 30"
    order = f"{form}.elements.order"
    tab.ask(f"(o => {{ o.value = '1'; o.{change}; }})({order})")
    assert tab.ask(f"{VISIBLE}[0].querySelector('h3').textContent").startswith("row 30 ")
    tab.ask("document.activeElement.blur()")
    for key, row in (("j", "row 30"), ("j", "row 29"), ("k", "row 30")):
        tab.press(key)
        heading = tab.ask("document.activeElement.querySelector('h3').textContent")
        assert heading.startswith(row), key
    tab.press("o")
    assert tab.ask("document.activeElement.querySelector('details').open") is True


LIT = "[...document.querySelectorAll('.tv-lit')].filter(e => e.checkVisibility())"
FOLD = "document.querySelectorAll('details').forEach(part => part.open = false)"
OPENED = "document.querySelector('#answers details').open"
SOURCE = "It was built of stone in 1817."


def test_the_focus_unfolds_the_sources_of_a_sentence(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    tab.open(render_verdicts(ROWS, {"bundle": "tiny"}), file)
    assert tab.ask(OPENED) is True  # as of the first ten answers
    tab.ask(FOLD)
    tab.ask("document.querySelector('#answers .tv-sentence a').focus()")
    assert tab.ask(OPENED) is True
    assert tab.ask(f"{LIT}.map(e => e.textContent)") == [SOURCE]
    tab.press("Enter")
    tab.wait("document.querySelector(':target')")
    assert tab.ask("document.querySelector(':target').textContent") == SOURCE
    tab.ask("document.activeElement.blur()")
    assert tab.ask(f"{LIT}.length") == 0
    check_quiet(tab, file)


@pytest.mark.parametrize("mobile", [False, True])
def test_a_click_or_a_tap_leads_to_the_first_source(tab: Tab, tmp_path: Path, mobile: bool) -> None:
    file = tmp_path / "page.html"
    long = ("Rivers are wide. " * 400, SOURCE)
    tab.open(render_verdicts([make_row(contexts=long)], {"bundle": "tiny"}), file)
    tab.size(390 if mobile else 1280, 800, mobile=mobile)
    tab.send("Emulation.setTouchEmulationEnabled", enabled=mobile)
    sentence = "document.querySelector('.tv-sentence')"
    tab.ask(FOLD)
    tab.ask(f"{sentence}.scrollIntoView()")
    x, y = tab.ask(f"(r => [r.x + 9, r.y + 9])({sentence}.getClientRects()[0])")
    if mobile:
        tab.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        tab.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    else:
        tab.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        assert tab.ask(OPENED) is False  # the pointer alone moves nothing
        for kind in ("mousePressed", "mouseReleased"):
            tab.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    tab.wait(OPENED)
    assert tab.ask(f"{LIT}.map(e => e.textContent)") == [SOURCE]
    edges = tab.ask(f"(r => [r.top, r.bottom])({LIT}[0].getBoundingClientRect())")
    assert 0 <= edges[0] < edges[1] <= 800
    tab.send("Emulation.setTouchEmulationEnabled", enabled=False)
    tab.send("Emulation.clearDeviceMetricsOverride")
    check_quiet(tab, file)


def test_paper_phone_and_dark(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    tab.open(render_verdicts(ROWS, {"bundle": "tiny"}), file)
    wide = "document.documentElement.scrollWidth <= window.innerWidth"
    top = "document.querySelector('#answers > article').getBoundingClientRect().top"
    for width, screens in ((1280, 1), (390, 2)):
        tab.size(width, 800, mobile=width < 500)
        assert tab.ask(wide) is True, width
        assert tab.ask(top) < screens * 800, width  # answers come before the figures
    tab.send("Emulation.clearDeviceMetricsOverride")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = tab.ask(colour)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.send("Emulation.setEmulatedMedia", features=dark)
    assert tab.ask(colour) != light
    tab.send("Emulation.setEmulatedMedia", media="print", features=dark)
    assert tab.ask(colour) == light  # white paper
    assert tab.ask("getComputedStyle(document.getElementById('filters')).display") == "none"
    tab.size(720, 1000)  # a page of A4 without its margins
    assert tab.ask(wide) is True
    tab.send("Emulation.clearDeviceMetricsOverride")
    tab.send("Emulation.setEmulatedMedia", media="", features=[])
    count = "document.querySelectorAll('details[open]').length"
    tab.ask(f"addEventListener('beforeprint', () => {{ window.unfolded = {count}; }})")
    pdf = b64decode(tab.send("Page.printToPDF")["data"])
    assert pdf.startswith(b"%PDF")
    # Contexts are unfolded while printing; those of the first ten answers always are.
    assert (tab.ask("window.unfolded"), tab.ask(count)) == (30, 10)
