"""Number of functions and files of the package that one evaluation and one request cross.

python -m benchmarks.call_routes [--list]

One example of one window, after warming up, in all threads (``sys.setprofile``). Functions are
``def`` and ``lambda``; comprehensions and generator expressions count as part of their function.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
import urllib.request
from pathlib import Path
from types import FrameType
from typing import Any

import trivet
from trivet.serve.http.running_server import RunningServer
from trivet.serve.http.settings import ServerSettings

PACKAGE = str(Path(trivet.__file__).parent)
INNER = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
TIMES = 4  # the last one counts
EXAMPLE: dict[str, Any] = {
    "question": "When was the stone bridge built?",
    "contexts": ["The stone bridge over the river was built in 1884.", "It replaced a ferry."],
    "response": "It was built in 1884. It is made of wood.",
}

crossed: set[tuple[str, str, int]] = set()


def note(frame: FrameType, event: str, _: object) -> None:
    """Note a function of the package that is called."""
    code = frame.f_code
    own = code.co_filename.startswith(PACKAGE) and code.co_name not in INNER
    if event == "call" and own:
        crossed.add((code.co_filename, code.co_qualname, code.co_firstlineno))


def show(title: str) -> None:
    """Print what was crossed."""
    found = sorted(crossed)
    print(f"{title}: {len(found)} functions in {len({file for file, _, _ in found})} files")
    for file, name, _ in found if "--list" in sys.argv else ():
        print(f"  {file[len(PACKAGE) + 1 :]} {name}")


async def request(evaluator: trivet.Evaluator) -> None:
    """Send requests to a server of this process."""
    server = RunningServer(evaluator, ServerSettings(port=0, canary_seconds=3600))
    await server.start(socket.create_server(("127.0.0.1", 0)))
    for _ in range(TIMES):
        crossed.clear()
        url, body = f"{server.url}/v1/evaluate", json.dumps(EXAMPLE).encode()
        (await asyncio.to_thread(urllib.request.urlopen, url, body)).close()
    show("one request")
    await server.stop()


def main() -> int:
    """Run the benchmark."""
    threading.setprofile(note)
    sys.setprofile(note)
    evaluator = trivet.Evaluator()
    for _ in range(TIMES):
        crossed.clear()
        evaluator.evaluate(**EXAMPLE)
    show("Evaluator.evaluate")
    asyncio.run(request(evaluator))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
