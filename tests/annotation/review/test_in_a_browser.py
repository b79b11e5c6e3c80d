"""A review in Chromium: by keys alone, on a wide screen and on a phone, offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.annotation.review.conftest import LABELS, lines
from tests.browser import IN_CHROMIUM, Tab, open_tab
from trivet.annotation.review.server import ReviewServer

pytestmark = IN_CHROMIUM

FOCUSED = "document.activeElement.textContent"
SHOWN = "document.querySelector('#row article')?.dataset.place === '{}'"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with open_tab(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def url(server: ReviewServer) -> str:
    return server.url


def keys(tab: Tab, *names: str) -> None:
    for name in names:
        tab.press(name)


@pytest.mark.parametrize("width", [1280, 390])
def test_rows_are_accepted_and_corrected_by_keys_alone(
    tab: Tab, url: str, out: Path, width: int
) -> None:
    tab.size(width, 800, mobile=width < 500)
    tab.go(url)
    tab.wait(SHOWN.format(0))
    assert tab.ask(FOCUSED).strip() == "The mill is old."
    assert tab.ask("document.documentElement.scrollWidth <= window.innerWidth") is True

    tab.press("Enter")  # accept as proposed
    tab.wait(SHOWN.format(1))
    assert lines(out)[0]["labels"] == LABELS | {"adherent": False}

    keys(tab, "ArrowDown")
    assert tab.ask(FOCUSED).strip() == "It was built in 1791."
    keys(tab, *["ArrowRight"] * 5)
    assert tab.ask(FOCUSED) == "1791"
    keys(tab, " ", "ArrowLeft", " ")  # "in" instead of "1791"
    keys(tab, "ArrowDown", "u", "ArrowDown", "r")  # first sentence not utilized, second relevant
    tab.press("Enter")
    tab.wait(SHOWN.format(2))
    labels = lines(out)[1]["labels"]
    assert labels["unsupported"] == [[30, 32]]
    assert labels["relevant"] == [[0, 0, 16], [0, 17, 33]]
    assert labels["utilized"] == []

    keys(tab, "n")  # later
    tab.wait(SHOWN.format(3))
    tab.press("Enter")
    tab.wait(SHOWN.format(2))  # the one that was left for later
    keys(tab, "m", " ")  # the marked sentence: not marked, then all of its words
    assert tab.ask("document.querySelectorAll('.word[aria-checked=true]').length") == 6
    tab.press("Enter")
    tab.wait("document.getElementById('state').textContent === 'all 4 reviewed'")
    assert len(lines(out)) == 4

    sent = {event["request"]["url"] for name, event in tab.events if name.endswith("WillBeSent")}
    assert sent == {url, *(f"{url}rows/{place}" for place in range(4))}
    assert tab.ask("localStorage.length + sessionStorage.length + document.cookie.length") == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_rows_are_corrected_by_pointer(tab: Tab, url: str, out: Path, width: int) -> None:
    tab.size(width, 800, mobile=width < 500)
    tab.go(url)
    tab.wait(SHOWN.format(0))
    tab.ask("document.querySelector('.word[aria-checked=true]').click()")
    tab.ask("document.querySelector('[data-field=relevant][aria-pressed=true]').click()")
    tab.ask("document.querySelector('.known[data-field=utilized]').click()")
    bar = "document.getElementById('bar').getBoundingClientRect()"
    assert tab.ask(f"{bar}.right <= window.innerWidth && {bar}.bottom <= window.innerHeight")
    tab.ask("document.getElementById('accept').click()")
    tab.wait(SHOWN.format(1))
    assert lines(out)[0]["labels"] == {"unsupported": [], "adherent": True, "relevant": []}
    tab.press("p")
    tab.wait(SHOWN.format(0))
    tab.wait("document.querySelector('#row .why').textContent.startsWith('reviewed by Ada')")


def test_what_was_not_saved_is_said(tab: Tab, url: str, labelled: Path, out: Path) -> None:
    tab.go(url)
    tab.wait(SHOWN.format(0))
    labelled.touch()
    labelled.write_text("", encoding="utf-8")
    tab.press("Enter")
    tab.wait("document.getElementById('said').textContent.includes('another program changed it')")
    assert tab.ask(SHOWN.format(0)) is True
    assert tab.ask("document.getElementById('accept').disabled") is False
    assert out.read_bytes() == b""
