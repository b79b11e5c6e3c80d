"""``trivet serve`` from its first line to its exit code."""

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

from trivet.evaluation.evaluator import Evaluator
from trivet.records import ConfigError
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.running_server import RunningServer, bind
from trivet.serve.http.settings import ServerSettings

if TYPE_CHECKING:
    from trivet.serve.http.telemetry import Telemetry

logger = logging.getLogger(__name__)

FINISHED, UNFINISHED = 0, 1


def run_server(
    load: Callable[[], Evaluator],
    settings: ServerSettings,
    announce: Callable[[str], None],
    telemetry: Telemetry | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT, then finish what was accepted. A second signal ends at once.

    Args:
        load: Loads the engine and tests it.
        settings: The limits.
        announce: Called once, with where the server is, when it is ready.
        telemetry: Who is told of every verdict, if anyone; closed in the end.

    Returns:
        The exit code: 0, or 1 where something accepted was not answered within the grace. Where a
        thread does not end, the process ends here and now with that code: an engine that does not
        return cannot be waited for.

    Raises:
        BundleError: The bundle is refused.
        ConfigError: The keys, the certificate, the address or the port cannot be used.
        BackendError: The engine does not answer.
    """
    if sys.platform == "win32":
        raise ConfigError("trivet serve needs Linux or macOS; on Windows run it in WSL")
    keys = None if settings.keys_file is None else KeyRing.read(settings.keys_file)
    return asyncio.run(_serve(load, settings, keys, announce, telemetry))


async def _serve(
    load: Callable[[], Evaluator],
    settings: ServerSettings,
    keys: KeyRing | None,
    announce: Callable[[str], None],
    telemetry: Telemetry | None,
) -> int:
    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    with bind(settings.host, settings.port) as listening:
        # In a thread, so that a signal is heard meanwhile.
        evaluator = await asyncio.to_thread(load)
        server = RunningServer(evaluator, settings, keys, telemetry)
        try:
            await _start(server, listening, stopping)
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
            logger.error("not all that was accepted could be answered within the grace")
        code = FINISHED if finished else UNFINISHED
        if not server.closed:
            _exit_now(code)
        return code


async def _start(server: RunningServer, listening: socket.socket, stopping: asyncio.Event) -> None:
    """Start the server, or give up when a signal comes: an engine may hang while it gets warm."""
    starting = asyncio.create_task(server.start(listening))
    told = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
    finally:
        starting.cancel()
        told.cancel()
        await asyncio.wait({starting, told})


def _stop_on_signals(stopping: asyncio.Event) -> None:
    """Let the first signal begin the end, and the second be it."""
    loop = asyncio.get_running_loop()
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        if len(heard) > 1:
            _exit_now(128 + number)
        loop.call_soon_threadsafe(stopping.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hear)


def _exit_now(code: int) -> NoReturn:
    """End the process without waiting for its threads: one may be in the engine for good."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)
