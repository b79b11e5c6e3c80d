"""uvicorn's HTTP protocol with the defences it lacks: time-outs, limits, one kind of framing.

uvicorn 0.54 closes an idle connection, but never one whose headers or body do not end, nor one
whose client does not read its answer. It bounds neither headers nor queued requests. Here every
phase of a connection has a timer and every size a limit. What breaks one is answered, where that
can still be done, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import uuid
from asyncio.events import TimerHandle
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from trivet.serve.http.connection_limits import MALFORMED, ConnectionLimits, Refusal
from trivet.serve.http.request_log import log_request
from trivet.serve.http.smuggling_guard import framing_fault

# Hardly a client sends its next request before it has the last answer; some proxies do.
_MOST_QUEUED = 16
# For how long a client that was refused may go on sending what nobody reads.
_LINGER_SECONDS = 1.0
# Stands for the route of what is refused before there is one.
CONNECTION = "(connection)"

Refused = Callable[[str, int], None]
"""Hears of a refusal: what stands for its route, and the status."""


class _Stopped(Exception):
    """Raised inside the parser's callbacks, which stops it."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection. See the module."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        limits: ConnectionLimits,
        *,
        draining: Callable[[], bool],
        refused: Refused,
        closed: Callable[[GuardedProtocol], None],
    ) -> None:
        """Make the protocol of a connection that is about to be accepted.

        Args:
            config: uvicorn's; its ``timeout_keep_alive`` bounds the time between two requests.
            server_state: Shared by all connections.
            limits: What this one may do.
            draining: Whether connections end with the answer under way.
            refused: Hears of what is refused here.
            closed: Hears that the connection is gone.
        """
        super().__init__(config, server_state, {})
        self._limits = limits
        self._draining = draining
        self._refused = refused
        self._closed = closed
        self._refusal = MALFORMED
        self._running: RequestResponseCycle | None = None
        self._deaf = False
        self._timer: TimerHandle | None = None
        self._flush_timer: TimerHandle | None = None
        # The request that is being read: in its headers, or before them; or in its body.
        self._began = False
        self._in_body = False
        self._slice_bytes = 0
        self._wire_bytes = 0  # of the headers, or of the body
        self._header_bytes = 0
        self._header_lines = 0
        self._chunks = 0
        self._wrapping_bytes = 0  # of the body, in a row, that are none of the app's

    # The connection -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; who says nothing has no more time than headers have."""
        super().connection_made(transport)
        self._arm(self._limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; uvicorn tells the app, which waits for a body or works on an answer."""
        super().connection_lost(exc)
        self._drop_running()
        self._disarm()
        self._unset_keepalive_if_required()
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self.pipeline.clear()
        self._closed(self)

    def data_received(self, data: bytes) -> None:
        """Feed the parser in slices no longer than headers may be, so that none grows unseen."""
        size = self._limits.header_bytes
        for start in range(0, len(data), size):
            if self._deaf or self.transport.is_closing():
                return
            self._feed(data[start : start + size])

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also one whose client has not read its answer."""
        super().timeout_keep_alive_handler()
        self._flush_or_abort()

    def pause_writing(self) -> None:
        """Wait for a client to read, but not for ever."""
        super().pause_writing()
        self._flush_or_abort()

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._flush_timer is not None and not self.transport.is_closing():
            self._flush_timer.cancel()
            self._flush_timer = None

    def end_soon(self) -> None:
        """Let the connection end with the answer that is under way."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    # The parser's callbacks ---------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._unset_keepalive_if_required()
        self._began = True
        self._wire_bytes = -self._slice_bytes  # this slice may hold the end of another request
        self._header_bytes = self._header_lines = 0
        if self._timer is None:
            self._arm(self._limits.header_seconds)

    def on_url(self, url: bytes) -> None:
        """Take a part of the path."""
        self._count_header(len(url), lines=0)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. One behind a body is counted and dropped: the app has begun by then."""
        self._count_header(len(name) + len(value) + 4, lines=1)
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check how the request is framed and hand it to the app."""
        upgrade = self.parser.should_upgrade()
        fault = framing_fault(self.parser.get_http_version(), self.headers, upgrade)
        if not fault and len(self.pipeline) >= _MOST_QUEUED:
            fault = f"more than {_MOST_QUEUED} requests came before the first was answered"
        if fault:
            self._stop(MALFORMED._replace(message=fault))
        super().on_headers_complete()
        if upgrade or self._draining():
            self.cycle.keep_alive = False
        self._in_body, self._chunks = True, 0
        self._wire_bytes = self._wrapping_bytes = -self._slice_bytes
        self._arm(self._limits.body_seconds)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._wrapping_bytes = -self._slice_bytes
        super().on_body(body)

    def on_chunk_header(self) -> None:
        """Count the pieces of a body: each takes the same time, be it a byte or a million."""
        self._chunks += 1
        if self._chunks > self._limits.body_chunks:
            self._stop(self._limits.too_much_of_body())

    def on_message_complete(self) -> None:
        """End a request; from here on the app takes the time."""
        super().on_message_complete()
        self._began = self._in_body = False
        self._wire_bytes = -self._slice_bytes
        self._disarm()
        if self.cycle.response_complete:
            # The rest of a body that was answered already has ended uvicorn's wait for the next.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """End an answer."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._flush_or_abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser refused, or what stopped it."""
        self._refuse(self._refusal)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: anyone could fill the log with it."""

    # Limits -------------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        self._slice_bytes = len(data)
        if self.timeout_keep_alive_task is not None and not self._in_body:
            self._arm(self._limits.header_seconds)  # the time between two requests is over
        super().data_received(data)
        self._wire_bytes += len(data)
        if self._in_body:
            # Trailers and what is said of chunks; the parser may keep them all.
            self._wrapping_bytes += len(data)
            too_much = self._wrapping_bytes > self._limits.header_bytes
            if too_much or self._wire_bytes > self._limits.request_bytes:
                self._refuse(self._limits.too_much_of_body())
        elif self._wire_bytes > self._limits.header_bytes:
            # Also what the parser has told nobody yet: a line's beginning, empty lines.
            self._refuse(self._limits.too_much_of_headers())

    def _count_header(self, size: int, lines: int) -> None:
        self._header_bytes += size
        self._header_lines += lines
        limits = self._limits
        if self._header_bytes > limits.header_bytes or self._header_lines > limits.headers:
            self._stop(limits.too_much_of_headers())

    def _stop(self, refusal: Refusal) -> None:
        """Stop the parser; once it has returned, uvicorn calls ``send_400_response``."""
        self._refusal = refusal
        raise _Stopped(refusal.message)

    def _refuse(self, refusal: Refusal) -> None:
        """Answer, unless an answer was begun or given, and close."""
        if self._deaf or self.transport.is_closing():
            return
        self._disarm()
        self._unset_keepalive_if_required()
        cycle = self.cycle
        answering = cycle is not None and cycle.response_started and not cycle.response_complete
        answered = self._in_body and cycle is not None and cycle.response_complete
        self._drop_running()
        if not answering and not answered:
            request_id = uuid.uuid4().hex
            self.transport.write(refusal.to_bytes(request_id))
            log_request(request_id, "-", CONNECTION, refusal.status, 0.0)
            self._refused(CONNECTION, refusal.status)
        if answering or not self.transport.can_write_eof():
            self.transport.close()
            self._flush_or_abort()
            return
        # Closing while the client still sends would reset the connection, and the answer with it.
        self._deaf = True
        self.transport.write_eof()
        self._timer = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start the app on a request; uvicorn remembers only the one that was read last."""
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _drop_running(self) -> None:
        """Tell the app that nobody waits for its answer any more."""
        for cycle in (self._running, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    # Timers -------------------------------------------------------------------------------------

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._time_is_up, seconds)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_is_up(self, seconds: float) -> None:
        owed = self.cycle is not None and not self.cycle.response_complete and not self._in_body
        if owed or self.flow.read_paused:
            # The client is not slow: it waits for an answer, or we do not read.
            self._arm(seconds)
        elif self._began:
            what = "body" if self._in_body else "headers"
            message = f"the request's {what} took longer than {seconds:g} s"
            self._refuse(Refusal(HTTPStatus.REQUEST_TIMEOUT, "timeout_reading", message))
        else:
            self.transport.close()  # nothing was asked: there is nothing to answer
            self._flush_or_abort()

    def _flush_or_abort(self) -> None:
        """Give a client a while to read what was written; then drop it."""
        if self._flush_timer is None:
            seconds = self._limits.body_seconds
            self._flush_timer = self.loop.call_later(seconds, self.transport.abort)
