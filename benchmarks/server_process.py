"""A server to measure: ``trivet serve`` in a process of its own, and what that process holds."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.report import parser

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_PATIENCE_SECONDS = 120.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ServerProcess:
    """A running server.

    Attributes:
        port: Where it listens, on this machine.
        ready_seconds: From the start of its process to its line that it is ready.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start one and wait until it is ready.

        Raises:
            RuntimeError: It ended before; with what it wrote.
        """
        started = time.perf_counter()
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if ready := re.match(r"trivet: ready on \w+://[^:]+:(\d+)", line):
                self.ready_seconds = time.perf_counter() - started
                self.port = int(ready[1])
                # A log that nobody reads fills its pipe, and the server then waits for ever.
                self._reading = threading.Thread(target=self._read_log)
                self._reading.start()
                return
        raise RuntimeError("the server did not start: " + "".join(said))

    @property
    def process(self) -> int:
        """The process's number."""
        return self._process.pid

    def memory_mb(self) -> float:
        """Return what it holds in memory now, in MB of 10^6 bytes."""
        pages = Path(f"/proc/{self.process}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * _PAGE / 1e6

    def forget_peak_mb(self) -> float:
        """Let the peak begin anew; return what the process holds now."""
        Path(f"/proc/{self.process}/clear_refs").write_text("5", encoding="ascii")
        return self.memory_mb()

    def peak_mb(self) -> float:
        """Return the most it has held since ``forget_peak_mb``, in MB of 10^6 bytes."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6

    def descriptors(self) -> int:
        """Return how many files and sockets it has open."""
        return len(list(Path(f"/proc/{self.process}/fd").iterdir()))

    def children(self) -> list[str]:
        """Return the processes it has started."""
        tasks = Path(f"/proc/{self.process}/task").iterdir()
        return [c for t in tasks for c in (t / "children").read_text(encoding="ascii").split()]

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait until it has ended; return its exit code."""
        code = self._process.wait(timeout=_PATIENCE_SECONDS)
        self._reading.join()
        return code

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self.wait()

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as log:
            for line in log:
                logger.debug("the server says: %s", line.rstrip())


@contextlib.contextmanager
def serving(given: argparse.Namespace, *flags: str) -> Iterator[ServerProcess]:
    """Start a server for a benchmark and end it.

    Args:
        given: What the flags of ``server_parser`` came to.
        flags: More of ``trivet serve``.
    """
    command = [sys.executable, "-m", "trivet", "serve", "--port", "0", "--no-access-log"]
    command += ["--bundle", str(given.bundle), "--threads", str(given.threads)]
    server = ServerProcess([*command, "--backend", given.backend, *flags])
    try:
        yield server
    finally:
        server.kill()


def server_parser(doc: str | None, repeats: int) -> argparse.ArgumentParser:
    """Return a parser with the flags that every benchmark of the server knows."""
    flags = parser(doc, repeats)
    flags.add_argument("--backend", choices=["onnx", "openvino"], default="onnx")
    return flags
