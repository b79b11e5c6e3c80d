"""What goes wrong with a request, as a client sees it: ``{error, error_type, request_id}``.

The status follows from the type, here and nowhere else. A message names fields, numbers and the way
out; it never repeats a text that a client sent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from trivet.records import FailedEvaluation, to_json_text
from trivet.serve.scheduling.predictions import Draining, Expired, Overloaded

STATUSES: Mapping[str, int] = {
    "invalid_json": 400,
    "invalid_unicode": 400,
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
"""The status of each ``error_type``. A client that hung up never sees its 499: the metrics do."""


class RequestError(Exception):
    """A request that gets no verdict.

    Attributes:
        error_type: A key of ``STATUSES``, stable, for programs.
        message: For people.
        headers: What goes with it.
    """

    def __init__(
        self, error_type: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUSES[self.error_type]


def error_fields(error_type: str, message: str, request_id: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": message, "error_type": error_type, "request_id": request_id}


def error_answer(error: RequestError, request_id: str) -> Response:
    """Return the response that tells a client of an error."""
    return Response(
        to_json_text(error_fields(error.error_type, error.message, request_id)),
        status_code=error.status,
        headers=error.headers,
        media_type="application/json",
    )


def request_error(error: Exception) -> RequestError:
    """Say in a client's terms what an exception means for its request.

    Args:
        error: Whatever was raised. What is not known here is ``internal``, and its text stays in
            the log.
    """
    match error:
        case RequestError():
            return error
        case Overloaded():
            # Whole seconds, and never "at once": whoever is refused should not come back at once.
            seconds = max(1, math.ceil(error.retry_after_seconds))
            return RequestError("overloaded", str(error), {"Retry-After": str(seconds)})
        case Expired():
            return RequestError("deadline", str(error))
        case Draining():
            # A load balancer should open its next connection to another server.
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
            return RequestError("internal", "the server failed; its log has the request's id")


def failure_error(failed: FailedEvaluation) -> RequestError:
    """Say what it means for a request that its only example could not be judged."""
    return RequestError(failed.code if failed.code in STATUSES else "validation", failed.message)
