"""Chromium, driven by its debugging protocol over two pipes; a dialog fails the test."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
IN_CHROMIUM = [
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
        self.go(file.as_uri())

    def go(self, url: str) -> None:
        self.events.clear()
        self.send("Page.navigate", url=url)
        while not any(name == "Page.loadEventFired" for name, _ in self.events):
            self._read()

    def ask(self, expression: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true, which is looked at in each frame."""
        look = f"new Promise(done => (function look() {{ ({expression}) ? done() : "
        look += "requestAnimationFrame(look); })())"
        self.send("Runtime.evaluate", expression=look, awaitPromise=True)

    def press(self, key: str, *, control: bool = False) -> None:
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        about = {"key": key, "modifiers": 2 if control else 0}
        if key == "Enter":
            about["windowsVirtualKeyCode"] = 13
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, text=text, **about)

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


@contextlib.contextmanager
def open_tab(profile: Path) -> Iterator[Tab]:
    """Start a browser with its own folder; yield a tab."""
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
