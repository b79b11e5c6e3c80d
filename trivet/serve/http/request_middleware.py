"""What surrounds every request: its id, its key, its line in the log, its place in the counts.

Also the last resort: whatever is raised inside becomes an answer in the shape of all errors.
"""

from __future__ import annotations

import logging
import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trivet.serve.http.errors import RequestError, error_answer, request_error
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.metrics import Counters
from trivet.serve.http.request_log import log_request
from trivet.serve.scheduling.predictions import Judged

logger = logging.getLogger(__name__)

PUBLIC = frozenset({"/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready"})
"""Paths that need no key."""

_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_NO_ROUTE = "(none)"


class Envelope:
    """ASGI middleware, the outermost of the app's own."""

    def __init__(self, app: ASGIApp, counters: Counters, keys: KeyRing | None = None) -> None:
        """Surround an app.

        Args:
            app: What answers.
            counters: Who counts.
            keys: Who may ask; ``None`` lets everybody.
        """
        self._app = app
        self._counters = counters
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        request_id = state["request_id"] = _request_id(headers.get("x-request-id"))
        began = state["began"] = time.monotonic()
        status = 0

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = MutableHeaders(scope=message)
                named["X-Request-Id"] = request_id
                named["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            self._check_key(scope["path"], headers.get("authorization"))
            await self._app(scope, receive, send_named)
        except Exception as error:
            if status:
                raise  # half an answer is out: all that is left is to break the connection
            told = request_error(error)
            if told.error_type == "internal":
                logger.error("request %s failed", request_id, exc_info=error)
            await error_answer(told, request_id)(scope, receive, send_named)
        finally:
            self._note(scope, status, began)

    def _check_key(self, path: str, authorization: str | None) -> None:
        """Refuse whoever has no key, before a byte of the body is read."""
        if self._keys is None or path in PUBLIC or self._keys.accepts(authorization):
            return
        raise RequestError(
            "unauthorized",
            "a key is needed: send the header Authorization: Bearer KEY",
            {"WWW-Authenticate": "Bearer"},
        )

    def _note(self, scope: Scope, status: int, began: float) -> None:
        route = getattr(scope.get("route"), "path", _NO_ROUTE)
        self._counters.answered(route, status or 500)
        if route in PUBLIC and status == 200:
            return  # probes ask every few seconds
        judged: Judged | None = scope["state"].get("judged")
        log_request(
            scope["state"]["request_id"],
            scope["method"],
            route,
            status or 500,
            1000 * (time.monotonic() - began),
            None if judged is None else judged.windows,
        )


def _request_id(given: str | None) -> str:
    """Return the caller's own name for the request if it is one, else a new one."""
    return given if given and _SANE_ID.fullmatch(given) else uuid.uuid4().hex
