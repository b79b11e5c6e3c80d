"""Errors as clients see them: ``{error, error_type, request_id}``.

A message names fields, numbers and the way out; it never repeats a text that a client sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from trivet.errors import BackendError
from trivet.evaluation.window_queue import Expired, Overloaded
from trivet.records import FailedEvaluation, to_json_text
from trivet.serve.http.batcher import Draining

STATUSES: Mapping[str, int] = {
    "invalid_json": 400,
    "invalid_unicode": 400,
    "malformed": 400,
    "unauthorized": 401,
    "not_found": 404,
    "method_not_allowed": 405,
    "timeout_reading": 408,
    "too_large": 413,
    "validation": 422,
    "empty_contexts": 422,
    "too_long": 422,
    "window": 422,
    "overloaded": 429,
    "client_gone": 499,
    "backend_failed": 500,
    "non_finite": 500,
    "internal": 500,
    "draining": 503,
    "unhealthy": 503,
    "deadline": 504,
}
"""Status of each ``error_type``; 499 appears only in metrics and logs."""

SYSTEMONE_PATH = "/v1/systemone"
"""Route whose refusals also have the form of its interface."""

# Refusals that leave a part of the body unread.
_UNREAD = frozenset({"malformed", "timeout_reading", "too_large"})


class RequestError(Exception):
    """A request is refused; ``error_type`` is a key of ``STATUSES``."""

    def __init__(
        self, error_type: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.status = STATUSES[error_type]
        self.message = message
        self.headers = dict(headers or {})
        if error_type in _UNREAD:
            self.headers["Connection"] = "close"


def error_response(error: RequestError, request_id: str, path: str = "") -> Response:
    """Return the response to a refused request."""
    status, name = error.status, error.error_type
    fields: dict[str, Any] = {"error": error.message, "error_type": name, "request_id": request_id}
    if path == SYSTEMONE_PATH:
        status = 422 if name in ("invalid_json", "invalid_unicode") else status
        name = "authentication_error" if name == "unauthorized" else name
        fields["detail"] = {"error_type": name, "message": error.message}
        if status == 422:
            fields["detail"] = [{"loc": ["body"], "msg": error.message, "type": name}]
    return Response(to_json_text(fields), status, error.headers, "application/json")


def request_error(error: Exception) -> RequestError:
    """Return the refusal for an exception; unknown ones are ``internal``, without a message."""
    match error:
        case RequestError():
            return error
        case Overloaded():
            # Whole seconds, at least one: a client that was refused should not return at once.
            seconds = max(1, math.ceil(error.retry_after_seconds))
            return RequestError("overloaded", str(error), {"Retry-After": str(seconds)})
        case BackendError():
            return failure_error(FailedEvaluation.of(error))
        case Expired():
            return RequestError("deadline", str(error))
        case Draining():
            # Makes a load balancer open its next connection to another server.
            return RequestError("draining", str(error), {"Retry-After": "1", "Connection": "close"})
        case ClientDisconnect():
            return RequestError("client_gone", "the client hung up")
        case HTTPException(status_code=404):
            return RequestError("not_found", "no such route; GET /openapi.json lists them all")
        case HTTPException(status_code=405):
            allowed = (error.headers or {}).get("Allow", "")
            message = f"this route takes {allowed or 'another method'}"
            return RequestError("method_not_allowed", message, error.headers)
        case _:
            return RequestError("internal", "the server failed; its log names the request_id")


def failure_error(failed: FailedEvaluation) -> RequestError:
    """Return the refusal of a request whose only example failed."""
    return RequestError(failed.code if failed.code in STATUSES else "validation", failed.message)
