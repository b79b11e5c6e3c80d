"""``trivet serve`` in a process of its own, with its memory and descriptors."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
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
    """A running server process.

    Attributes:
        port: Port on this machine.
        ready_seconds: Seconds from the start of the process to its "ready" line.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start a server and wait until it is ready.

        Raises:
            RuntimeError: The server ended before; the message has its output.
        """
        started = time.perf_counter()
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        lines = []
        for line in self._process.stderr:
            lines.append(line)
            if ready := re.match(r"trivet: ready on \w+://[^:]+:(\d+)", line):
                self.ready_seconds = time.perf_counter() - started
                self.port = int(ready[1])
                # An unread log would fill its pipe and block the server.
                self._reading = threading.Thread(target=self._read_log)
                self._reading.start()
                return
        raise RuntimeError("the server did not start: " + "".join(lines))

    @property
    def process(self) -> int:
        """Process id."""
        return self._process.pid

    def memory_mb(self) -> float:
        """Return the resident memory in MB (10^6 bytes)."""
        pages = Path(f"/proc/{self.process}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * _PAGE / 1e6

    def forget_peak_mb(self) -> float:
        """Reset the peak; return the resident memory now."""
        Path(f"/proc/{self.process}/clear_refs").write_text("5", encoding="ascii")
        return self.memory_mb()

    def peak_mb(self) -> float:
        """Return the peak since ``forget_peak_mb``, in MB (10^6 bytes)."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6

    def descriptors(self) -> int:
        """Return the number of open files and sockets."""
        return len(list(Path(f"/proc/{self.process}/fd").iterdir()))

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait(timeout=_PATIENCE_SECONDS)
        self._reading.join()

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as log:
            for line in log:
                logger.debug("server: %s", line.rstrip())


@contextlib.contextmanager
def serving(options: argparse.Namespace, *flags: str) -> Iterator[ServerProcess]:
    """Start a server and kill it afterwards."""
    command = [sys.executable, "-m", "trivet", "serve", "--port", "0", "--no-access-log"]
    command += ["--bundle", str(options.bundle), "--threads", str(options.threads)]
    server = ServerProcess([*command, "--backend", options.backend, *flags])
    try:
        yield server
    finally:
        server.kill()


def server_parser(doc: str | None, repeats: int) -> argparse.ArgumentParser:
    """Return a parser with the flags of all benchmarks of the server."""
    flags = parser(doc, repeats)
    flags.add_argument("--backend", choices=["onnx", "openvino"], default="onnx")
    return flags
