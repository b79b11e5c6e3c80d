"""``trivet serve`` as a process: port, signals, exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from trivet.errors import BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.serve.http.process import run_server
from trivet.serve.http.server_settings import ServerSettings

ROOT = Path(__file__).resolve().parents[3]
# Longest time of a step; a loaded machine is slow.
PATIENCE = 60.0
LONG = {
    "question": "When was the bridge built?",
    "contexts": ["The stone bridge over the river was built in 1884. " * 200],
    "response": "It was built in 1884.",
}
# A server whose backend hangs once it is ready.
HANGING = """
import sys
from tests.serve.http.conftest import EvenBackend
from trivet.evaluation.evaluator import Evaluator
from trivet.serve.http.process import run_server
from trivet.serve.http.server_settings import ServerSettings

class Hanging(EvenBackend):
    def run(self, windows):
        if not self.gate.is_set():
            print("it hangs", file=sys.stderr, flush=True)
        return super().run(windows)

backend = Hanging()

def announce(where):
    backend.gate.clear()
    print(f"trivet: ready on {where}", file=sys.stderr, flush=True)

run_server(lambda: Evaluator(backend=backend), ServerSettings(port=0, grace_seconds=0.5), announce)
"""


class Served:
    """A process that serves at ``url``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        for line in process.stderr or ():
            self.lines.append(line)
            if ready := re.match(r"trivet: ready on (\S+) \(", line):
                self.url = ready[1]
                return
        raise AssertionError("it ended before it was ready: " + "".join(self.lines))

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal; return the exit code and all that was written to stderr."""
        self.process.send_signal(number)
        return self.wait()

    def post(self) -> httpx2.Response:
        return httpx2.post(f"{self.url}/v1/evaluate", json=LONG, timeout=PATIENCE)

    def wait(self) -> tuple[int, str]:
        _, rest = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, "".join(self.lines) + rest


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start Python, and kill it at the end."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    command, env = [sys.executable, *arguments], os.environ | {"PYTHONPATH": path}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[Served]:
    """Start ``trivet serve`` and wait until it is ready."""
    with started(*(arguments or ("-m", "trivet", "serve", "--port", "0"))) as process:
        yield Served(process)


def children(pid: int) -> list[str] | None:
    """Return the child processes of a process; ``None`` where there is no ``/proc``."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.is_dir():
        return None
    return [child for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def wait_until_queued(url: str, requests: int) -> None:
    """Return once so many requests are accepted and unanswered."""
    line = f"\ntrivet_queue_requests {requests:.1f}\n"
    while line not in httpx2.get(f"{url}/metrics", timeout=PATIENCE).text:
        time.sleep(0.01)


def test_sigterm_finishes_what_was_accepted_and_leaves_nothing_behind() -> None:
    with served() as server, ThreadPoolExecutor(3) as clients:
        work = [clients.submit(server.post) for _ in range(3)]
        wait_until_queued(server.url, 3)
        family = children(server.process.pid)
        server.process.send_signal(signal.SIGTERM)
        ready = httpx2.get(f"{server.url}/health/ready", timeout=PATIENCE)
        while ready.status_code == 200:  # the signal is on its way
            ready = httpx2.get(f"{server.url}/health/ready", timeout=PATIENCE)
        assert ready.status_code == 503
        answers = [future.result() for future in work]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        assert all(answer.json()["windows"] > 3 for answer in answers)
        code, log = server.wait()
        assert code == 0
        assert family in ([], None)
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    requests = [line for line in lines if line["message"] == "request"]
    assert {"route", "status", "ms", "request_id", "time", "level"} <= set(requests[0])
    assert "bridge" not in log


def test_an_idle_server_ends_at_once_and_sigint_too() -> None:
    command = ("-m", "trivet", "serve", "--port", "0", "--log-format", "text")
    with served(*command) as server, httpx2.Client() as client:
        assert client.get(f"{server.url}/health/ready").status_code == 200  # and stays connected
        code, log = server.end(signal.SIGINT)
    assert code == 0
    assert "INFO draining: new work is refused, for at most 30 s" in log


def test_a_second_signal_ends_it_whatever_is_in_flight() -> None:
    with served() as server, ThreadPoolExecutor(4) as clients:
        work = [clients.submit(server.post) for _ in range(4)]
        wait_until_queued(server.url, 4)
        server.process.send_signal(signal.SIGTERM)
        while httpx2.get(f"{server.url}/health/ready", timeout=PATIENCE).status_code == 200:
            time.sleep(0.01)
        code, _ = server.end(signal.SIGTERM)
        assert code == 128 + signal.SIGTERM
        ends = [future.exception() for future in work]
        assert any(isinstance(end, httpx2.TransportError) for end in ends)


def test_a_hung_backend_does_not_keep_the_process() -> None:
    with served("-c", HANGING) as server, ThreadPoolExecutor(1) as clients:
        work = clients.submit(server.post)
        wait_until_queued(server.url, 1)
        code, _ = server.end(signal.SIGTERM)
        assert code == 1
        assert work.result().json()["error_type"] == "draining"


def test_a_signal_ends_it_also_while_the_backend_hangs_in_its_first_call() -> None:
    script = HANGING.replace("Hanging()", "Hanging()\nbackend.gate.clear()")
    with started("-c", script) as process:
        assert process.stderr is not None
        assert "it hangs\n" in iter(process.stderr.readline, "")
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0  # no request was left without an answer
    assert "ready" not in rest


def test_a_refused_start_leaves_the_signal_handlers_of_the_caller() -> None:
    def refuse() -> Evaluator:
        raise BundleError("no bundle")

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(BundleError, match="no bundle"):
        run_server(refuse, ServerSettings(port=0), print)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
