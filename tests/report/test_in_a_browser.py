"""Pages in Chromium: no dialog, no request; filters, keys, paper, narrow and dark screens.

The debugging protocol runs over two pipes.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.report.rows import HOSTILE, PAYLOADS, make_row
from trivet.report.comparison_page import render_comparison
from trivet.report.verdicts_page import render_verdicts

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]
SILENCE = 60  # seconds without an answer
# Containers have no user namespaces for the sandbox; the pages are our own.
OPTIONS = """
    --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking
    --disable-component-update --remote-debugging-pipe
""".split()  # noqa: SIM905 (shorter than a list)


class Tab:
    """A tab of the browser; ``events`` are in order."""

    def __init__(self, into: IO[bytes], out: IO[bytes]) -> None:
        self._into, self._out = into.fileno(), out.fileno()
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            continue
        assert "error" not in answer, answer
        return dict(answer["result"])

    def open(self, page: str, file: Path) -> None:
        file.write_text(page, encoding="utf-8")
        self.events.clear()
        self.send("Page.navigate", url=file.as_uri())
        while not any(name == "Page.loadEventFired" for name, _ in self.events):
            self._read()

    def ask(self, expression: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, text=key)

    def size(self, width: int, height: int, mobile: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], SILENCE)
            assert ready, f"the browser said nothing for {SILENCE} s"
            self._rest += os.read(self._out, 1 << 20)
        line, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(line)
        if "method" in answer:
            self.events.append((answer["method"], answer.get("params", {})))
            assert answer["method"] != "Page.javascriptDialogOpening", answer
        return answer


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    profile = tmp_path_factory.mktemp("profile")
    browser = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={profile}"]
    # Chromium reads commands from descriptor 3 and writes answers to 4.
    shell = ["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1', "sh"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*shell, *browser], stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Tab(process.stdin, process.stdout)
        finally:
            process.kill()


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
        tab.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
        for key in "jjoko":
            tab.press(key)
        check_quiet(tab, file)
        assert tab.ask("document.querySelectorAll('img, iframe, a, link, object').length") == 0
        own = "[...document.querySelectorAll('*')].every(e => ![...e.attributes]"
        assert tab.ask(f"{own}.some(a => a.name.startsWith('on')))")


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
    tab.ask(f"{form}.elements.kind[1].click()")  # made up: faithfulness below one half
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


def test_paper_phone_and_dark(tab: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    tab.open(render_verdicts(ROWS, {"bundle": "tiny"}), file)
    wide = "document.documentElement.scrollWidth <= window.innerWidth"
    for width in (1200, 400):
        tab.size(width, 800, mobile=width < 500)
        assert tab.ask(wide) is True, width
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
    # Contexts are unfolded while printing.
    assert (tab.ask("window.unfolded"), tab.ask(count)) == (30, 0)
