"""Errors of the package. Imports the standard library alone."""

from __future__ import annotations


class ExampleError(ValueError):
    """The example cannot be evaluated; ``code`` names the reason for programs."""

    def __init__(self, message: str, code: str = "invalid_row") -> None:
        super().__init__(message)
        self.code = code


class DataError(ValueError):
    """A data file or a data specification cannot be read."""


class WindowError(ValueError):
    """Window settings leave no room for context."""


class ConfigError(ValueError):
    """A configuration is refused; the message names the key."""


class BundleError(ValueError):
    """A bundle is refused; the message names the file."""


class DivergedError(RuntimeError):
    """A loss or a gradient is NaN or infinite; the message names the place."""


class BackendError(RuntimeError):
    """A backend failed, or answered with no probability; ``code`` names which."""

    def __init__(self, message: str, code: str = "backend_failed") -> None:
        super().__init__(message)
        self.code = code


class ServerError(RuntimeError):
    """A server gave no verdict, for a reason that is not in an example.

    Attributes:
        status: HTTP status; ``None`` without an answer.
        error_type: Reason as the server names it, such as ``overloaded`` or ``unauthorized``;
            ``unreachable`` or ``timeout`` without an answer, and ``invalid_answer`` if the other
            side is no Trivet server.
        request_id: Id of the request in the server's log.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        error_type: str = "invalid_answer",
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.request_id = request_id
