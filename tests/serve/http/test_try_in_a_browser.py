"""``/try`` in Chromium: used by keys alone, on a wide screen and on a phone, and kept nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import IN_CHROMIUM, Tab, open_tab
from tests.client.conftest import serving
from trivet.evaluation.evaluator import Evaluator
from trivet.serve.http.server_settings import ServerSettings

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with open_tab(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def url(embedded: Evaluator) -> Iterator[str]:
    with serving(embedded, ServerSettings()) as server:
        yield f"{server.url}/try"


@pytest.mark.parametrize("width", [1280, 390])
def test_an_answer_is_judged_by_keys_alone(tab: Tab, url: str, width: int) -> None:
    tab.size(width, 800, mobile=width < 500)
    tab.go(url)
    tab.ask("document.getElementById('example').focus()")
    tab.press("Enter")
    tab.ask("document.getElementById('response').focus()")
    tab.press("Enter", control=True)
    tab.wait("document.querySelector('#result .tv-sentence')")
    assert tab.ask("document.activeElement.id") == "result"
    marks = "[...document.querySelectorAll('#result .tv-sentence mark')]"
    marked = tab.ask(f"{marks}.map(mark => mark.textContent).join(' ')")
    assert "1890" in marked  # the wrong value, of whatever span the model marks
    assert tab.ask("document.documentElement.scrollWidth <= window.innerWidth") is True
    sent = [event for name, event in tab.events if name == "Network.requestWillBeSent"]
    assert {event["request"]["url"] for event in sent} == {url, f"{url}/verdict"}
    assert tab.ask("localStorage.length + sessionStorage.length + document.cookie.length") == 0


def test_a_refusal_is_said(tab: Tab, url: str) -> None:
    tab.go(url)
    tab.ask("document.getElementById('contexts').value = ' '")
    tab.ask("document.getElementById('try').requestSubmit()")
    tab.wait("document.getElementById('result').textContent.includes('no contexts')")
    assert tab.ask("document.querySelector('#try [type=submit]').disabled") is False
