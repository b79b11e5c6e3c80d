"""``trivet serve`` as a process: signals, start, and the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from trivet.errors import ConfigError
from trivet.evaluation.evaluator import Evaluator
from trivet.serve.http.http_server import bind
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.running_server import RunningServer
from trivet.serve.http.server_settings import ServerSettings

if TYPE_CHECKING:
    from trivet.serve.http.telemetry import Telemetry

logger = logging.getLogger(__name__)

STOPPING = (signal.SIGTERM, signal.SIGINT)


def run_server(
    load: Callable[[], Evaluator],
    settings: ServerSettings,
    announce: Callable[[str], None],
    telemetry: Telemetry | None = None,
) -> NoReturn:
    """Serve until SIGTERM or SIGINT, finish accepted work, and end the process.

    The exit code is 0, or 1 if accepted work was not answered within the grace period. A second
    signal ends the process at once. ``load`` loads and tests the evaluator; ``announce`` is called
    with the URL once the server is ready.

    Raises:
        BundleError: The bundle is refused.
        ConfigError: The keys, the certificate, the address or the port cannot be used.
        BackendError: The backend fails on a stored example.
    """
    if sys.platform == "win32":
        raise ConfigError("trivet serve needs Linux or macOS; on Windows run it in WSL")
    keys = None if settings.keys_file is None else KeyRing.read(settings.keys_file)
    before = {number: signal.getsignal(number) for number in STOPPING}
    try:
        asyncio.run(_serve(load, settings, keys, announce, telemetry))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _serve(
    load: Callable[[], Evaluator],
    settings: ServerSettings,
    keys: KeyRing | None,
    announce: Callable[[str], None],
    telemetry: Telemetry | None,
) -> NoReturn:
    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    with bind(settings.host, settings.port) as bound:
        # In a thread, so that signals are handled meanwhile.
        evaluator = await asyncio.to_thread(load)
        server = RunningServer(evaluator, settings, keys, telemetry)
        try:
            await _start(server, bound, stopping)
        except Exception:
            await server.stop()
            raise
        if not stopping.is_set():
            announce(f"{server.url} ({evaluator.bundle.info.name}, {evaluator.backend_name})")
        await stopping.wait()
        logger.info("draining: new work is refused, for at most %g s", settings.grace_seconds)
        finished = await server.stop()
        if telemetry is not None:
            telemetry.close()
        if not finished:
            logger.error("some accepted work was not answered within the grace period")
        _exit_now(0 if finished else 1)


async def _start(server: RunningServer, bound: socket.socket, stopping: asyncio.Event) -> None:
    """Start the server, or return on a signal: the backend may hang while it warms up."""
    starting = asyncio.create_task(server.start(bound))
    signalled = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({starting, signalled}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
    finally:
        starting.cancel()
        signalled.cancel()
        await asyncio.wait({starting, signalled})


def _stop_on_signals(stopping: asyncio.Event) -> None:
    """Set an event on the first signal; end the process on the second."""
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            _exit_now(128 + number)
        loop.call_soon_threadsafe(stopping.set)

    for number in STOPPING:
        signal.signal(number, handle)


def _exit_now(code: int) -> NoReturn:
    """End the process without waiting for its threads.

    A backend call may hang.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
