"""The HTTP server of a review, on this machine alone.

Its address holds a secret, so that neither other pages of the browser nor other people of the
machine can read or write rows. It answers its own host name alone (against DNS rebinding), takes
JSON of its own page alone, and allows no other origin.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trivet.annotation.review.marks import FIELDS, Marks
from trivet.annotation.review.page import render_page, render_row
from trivet.annotation.review.review import Review
from trivet.batch.output import OutputFullError, RunChangedError
from trivet.errors import ConfigError
from trivet.records import to_json_text

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
MOST_BYTES = 1 << 20
"""Largest body of a request: a mark is a number."""
_SECONDS = 30.0  # without a byte of a request
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class ReviewServer(ThreadingHTTPServer):
    """A server of one review.

    Attributes:
        url: Address of the page, with its secret.
    """

    daemon_threads = True

    def __init__(self, review: Review, port: int) -> None:
        """Bind the port of 127.0.0.1; 0 chooses a free one.

        Raises:
            ConfigError: The port is in use or not allowed.
        """
        self.review = review
        self.secret = secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"port {port} of {HOST} cannot be used: {error.strerror}; choose another --port, "
                "or 0 for a free one"
            ) from error
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        self.url = f"http://{HOST}:{self.server_port}/{self.secret}/"


class _Refusal(Exception):
    """A request that is not answered; the message is for the person."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    server_version, sys_version = "trivet", ""
    timeout = _SECONDS

    def do_GET(self) -> None:
        self._answer(self._read)

    def do_POST(self) -> None:
        self._answer(self._write)

    def log_message(self, form: str, *values: object) -> None:
        """Log nothing: the address holds the secret."""

    def _answer(self, act: Any) -> None:
        try:
            self._check_host()
            status = HTTPStatus.OK
            kind, text, policy = act(self._place())
        except _Refusal as refusal:
            status, kind, policy = refusal.status, "application/json", None
            text = to_json_text({"error": str(refusal)})
        except Exception:  # a bug; the page must say that nothing was saved
            logger.exception("a request failed")
            status, kind, policy = HTTPStatus.INTERNAL_SERVER_ERROR, "application/json", None
            text = to_json_text({"error": "the server failed; its terminal says why"})
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        policy = policy or "default-src 'none'"
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _check_host(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            raise _Refusal(HTTPStatus.MISDIRECTED_REQUEST, "the Host is not that of this server")
        origin = self.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self.server.hosts:
            raise _Refusal(HTTPStatus.FORBIDDEN, "the request is of another page")

    def _place(self) -> int | None:
        """Return the place of the row that the address names; ``None`` for the page."""
        secret, slash, name = self.path.removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(secret.encode(), self.server.secret.encode()):
            raise _Refusal(HTTPStatus.NOT_FOUND, "there is nothing here; use the printed address")
        if not name and self.command == "GET":
            return None
        found = re.fullmatch(r"rows/([0-9]{1,9})", name)
        if found is None or int(found[1]) >= len(self.server.review.rows):
            raise _Refusal(HTTPStatus.NOT_FOUND, "there is no such row")
        return int(found[1])

    def _read(self, place: int | None) -> tuple[str, str, str | None]:
        if place is None:
            page, policy = render_page(self.server.review)
            return "text/html", page, policy
        return "text/html", render_row(self.server.review, place), None

    def _write(self, place: int) -> tuple[str, str, str | None]:
        body = self._body()
        try:
            marks = Marks(**{name: _numbers(body.get(name)) for name in FIELDS})
            self.server.review.save(place, str(body.get("seen") or ""), marks)
        except RunChangedError as error:
            raise _Refusal(HTTPStatus.CONFLICT, str(error)) from None
        except (TypeError, ValueError) as error:
            raise _Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"marks: {error}") from None
        except (OutputFullError, OSError) as error:
            raise _Refusal(HTTPStatus.INSUFFICIENT_STORAGE, f"not saved: {error}") from None
        return "application/json", to_json_text({"left": self.server.review.left()}), None

    def _body(self) -> Mapping[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _Refusal(HTTPStatus.LENGTH_REQUIRED, "the body must have a Content-Length")
        if len(length) > 9 or int(length) > MOST_BYTES:
            raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"over {MOST_BYTES} bytes")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except TimeoutError:
            raise _Refusal(HTTPStatus.REQUEST_TIMEOUT, "the body is too slow") from None
        except ValueError:
            raise _Refusal(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
        if not isinstance(body, dict):
            raise _Refusal(HTTPStatus.BAD_REQUEST, "the body is not an object")
        return body


def _numbers(value: object) -> frozenset[int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(one) is int for one in value):
        raise TypeError("not a list of numbers")
    return frozenset(value)
