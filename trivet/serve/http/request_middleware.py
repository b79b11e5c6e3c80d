"""Everything around a route: request id, API key, limits of the body, error responses, logs.

A log line never has a request's text or key, and an exception is logged by its type and place
alone: its message may quote a request.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import re
import sys
import time
import traceback
import uuid
from collections.abc import Sequence
from typing import Any, TextIO

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trivet.serve.http.health import PROBES, PUBLIC, Health
from trivet.serve.http.http_server import CHUNKS
from trivet.serve.http.keys import KeyRing
from trivet.serve.http.prometheus_metrics import Metrics
from trivet.serve.http.request_errors import RequestError, error_response, request_error
from trivet.serve.http.server_settings import LogFormat, ServerSettings

logger = logging.getLogger(__name__)

_VALID_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_NO_ROUTE = "(none)"
_FIELDS = "trivet_fields"  # attribute of a log record: further keys of its line


class RequestMiddleware:
    """ASGI middleware that checks each request, and turns exceptions into error responses.

    It leaves ``request_id`` and ``began`` (by ``time.monotonic``) in ``scope["state"]``.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        health: Health,
        metrics: Metrics,
        keys: KeyRing | None,
        settings: ServerSettings,
        max_body_chunks: int = 16_384,
    ) -> None:
        """Wrap an app; without ``keys`` every client is allowed.

        A body has at most ``max_body_chunks`` chunks: each costs time, however small.
        """
        self._app = app
        self._health = health
        self._metrics = metrics
        self._keys = keys
        self._max_bytes = settings.max_body_bytes
        self._body_seconds = settings.body_timeout_seconds
        self._max_chunks = max_body_chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers = Headers(scope=scope)
        given_id = headers.get("x-request-id", "")
        request_id = given_id if _VALID_ID.fullmatch(given_id) else uuid.uuid4().hex
        began = time.monotonic()
        state = scope.setdefault("state", {})
        state["request_id"], state["began"] = request_id, began
        deadline = asyncio.get_running_loop().time() + self._body_seconds
        status = size = 0
        complete = False
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"

        async def receive_within_limits() -> Message:
            nonlocal size, complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                fault = f"the request's body took longer than {self._body_seconds:g} s"
                raise RequestError("timeout_reading", fault) from None
            size += len(message.get("body", b""))
            if size > self._max_bytes:
                raise self._too_large(f"the body has at least {size} bytes")
            if state.get(CHUNKS, 0) > self._max_chunks:
                fault = f"the body comes in more than {self._max_chunks} chunks"
                raise RequestError("too_large", fault)
            complete = not message.get("more_body")
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                added = MutableHeaders(scope=message)
                added["X-Request-Id"] = request_id
                added["X-Content-Type-Options"] = "nosniff"
                added["Server"] = "trivet"
                if self._health.draining or (has_body and not complete):
                    added["Connection"] = "close"  # the rest of a body is not read
            await send(message)

        try:
            self._check(scope, headers)
            await self._app(scope, receive_within_limits, send_with_headers)
        except Exception as error:
            if status:
                logger.error("request %s failed", request_id, exc_info=error)
                raise  # part of the response is sent: the connection must break
            await self._refusal(error, request_id, scope["path"])(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            self._metrics.answered(route, status or 500)
            # Probes come every few seconds, and fail until the backend has answered.
            if route not in PROBES or not (status == 200 or self._health.starting):
                milliseconds = 1000 * (time.monotonic() - began)
                windows = getattr(state.get("predictions"), "windows", None)
                method = scope["method"]
                log_request(request_id, method, route, status or 500, milliseconds, windows)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Refuse a request by its headers, before its body is read."""
        fault = framing_fault(scope["http_version"], scope["headers"])
        if fault:
            raise RequestError("malformed", fault)
        keys = None if scope["path"] in PUBLIC else self._keys
        if keys is not None and not keys.accepts(headers.get("authorization")):
            message = "an API key is required: send the header Authorization: Bearer KEY"
            raise RequestError("unauthorized", message, {"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length")  # the parser has refused what is not a number
        if length is not None and int(length) > self._max_bytes:
            raise self._too_large(f"the body has {int(length)} bytes")

    def _refusal(self, error: Exception, request_id: str, path: str) -> Response:
        """Return the response to an exception; log the exceptions that are bugs."""
        refusal = request_error(error)
        if refusal.error_type == "internal":
            logger.error("request %s failed", request_id, exc_info=error)
        return error_response(refusal, request_id, path)

    def _too_large(self, fault: str) -> RequestError:
        return RequestError(
            "too_large",
            f"{fault}, more than max_body_bytes={self._max_bytes}; send fewer examples in a "
            "request, or raise --max-body-bytes",
        )


def framing_fault(version: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Return why a proxy might frame a request differently, or an empty string."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    if version not in ("1.0", "1.1"):
        return "this server speaks HTTP/1.1"
    is_old = version == "1.0"
    hosts = values.get(b"host", [])
    if len(hosts) > 1 or (not is_old and hosts in ([], [b""])):
        return "there must be one Host header"
    codings = values.get(b"transfer-encoding", [])
    if codings and (
        is_old
        or b"content-length" in values
        or [coding.lower() for coding in codings] != [b"chunked"]
    ):
        return "the only Transfer-Encoding is chunked, in HTTP/1.1 and without Content-Length"
    if b"upgrade" in values and (codings or values.get(b"content-length", [b"0"]) != [b"0"]):
        return "a body cannot come with an Upgrade header; send HTTP/1.1 without it"
    return ""


def set_up_logging(
    log_format: LogFormat, *, access_log: bool = True, stream: TextIO | None = None
) -> None:
    """Send the lines of all loggers to one stream; stderr if none is given."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("trivet").setLevel(logging.INFO)
    logger.setLevel(logging.INFO if access_log else logging.WARNING)


def log_request(
    request_id: str,
    method: str,
    route: str,
    status: int,
    milliseconds: float,
    windows: int | None = None,
) -> None:
    """Log a request, as a warning where the server failed; ``route`` is not the client's path."""
    fields: dict[str, Any] = {"request_id": request_id, "method": method, "route": route}
    fields |= {"status": status, "ms": round(milliseconds, 1)}
    if windows is not None:
        fields["windows"] = windows
    level = logging.WARNING if status >= 500 else logging.INFO
    logger.log(level, "request", extra={_FIELDS: fields})


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and further keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage().strip(),
        }
        line |= getattr(record, _FIELDS, {})
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"], line["at"] = _name_and_places(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True, default=str)


class TextLines(logging.Formatter):
    """``LEVEL message key=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        fields = getattr(record, _FIELDS, {})
        parts = [record.levelname, record.getMessage().strip().replace("\n", "\\n")]
        parts += [f"{key}={value}" for key, value in fields.items()]
        if record.exc_info and record.exc_info[1] is not None:
            name, places = _name_and_places(record.exc_info[1])
            parts.append(f"{name} at {' < '.join(reversed(places))}")
        return " ".join(parts)


def _name_and_places(error: BaseException) -> tuple[str, list[str]]:
    """Return an exception's type, and its places from the outermost to the innermost."""
    frames = traceback.extract_tb(error.__traceback__)
    return type(error).__name__, [f"{f.filename}:{f.lineno} {f.name}" for f in frames]
