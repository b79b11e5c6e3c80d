"""What one connection may do, and what it is told when it does more."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple

from trivet.records import to_json_text
from trivet.serve.http.errors import error_fields
from trivet.serve.http.settings import ServerSettings


class Refusal(NamedTuple):
    """Why a connection is ended.

    Attributes:
        status: Of the answer.
        error_type: As in ``errors``.
        message: For people.
    """

    status: HTTPStatus
    error_type: str
    message: str

    def to_bytes(self, request_id: str) -> bytes:
        """Return the whole response, in the shape of all errors."""
        body = to_json_text(error_fields(self.error_type, self.message, request_id)).encode()
        lines = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            f"x-request-id: {request_id}",
            "connection: close",
        )
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


MALFORMED = Refusal(HTTPStatus.BAD_REQUEST, "malformed", "this is no HTTP/1.1 request")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may do.

    Attributes:
        header_seconds: From the first byte of a request, or the beginning of the connection, to the
            end of the headers.
        body_seconds: From there to the end of the body; also how long an answer may go unread.
        header_bytes: Request line and headers of one request.
        headers: Lines of them.
        body_bytes: Of one body. The app refuses a larger one; a request that is twice as long ends
            the connection, whatever its bytes are: chunk sizes, trailers, a refused body's rest.
        body_chunks: Pieces of one chunked body.
    """

    header_seconds: float
    body_seconds: float
    header_bytes: int
    headers: int
    body_bytes: int
    body_chunks: int

    @classmethod
    def of(cls, settings: ServerSettings) -> ConnectionLimits:
        """Return a server's limits for one connection."""
        return cls(
            header_seconds=settings.header_timeout_seconds,
            body_seconds=settings.body_timeout_seconds,
            header_bytes=settings.max_header_bytes,
            headers=settings.max_headers,
            body_bytes=settings.max_body_bytes,
            body_chunks=settings.max_body_chunks,
        )

    @property
    def request_bytes(self) -> int:
        """The most bytes of one request's body on the wire."""
        return 2 * self.body_bytes + 16 * self.body_chunks

    def too_much_of_headers(self) -> Refusal:
        """Return the refusal of too long headers."""
        return Refusal(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            "too_large",
            f"the headers have more than {self.header_bytes} bytes or {self.headers} lines",
        )

    def too_much_of_body(self) -> Refusal:
        """Return the refusal of a body that is too long, or in too many pieces."""
        return Refusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "too_large",
            f"the body is far larger than {self.body_bytes} bytes, or comes in more than "
            f"{self.body_chunks} chunks",
        )
