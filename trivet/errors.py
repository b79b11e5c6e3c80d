"""Errors of the package and the words of their messages. Imports the standard library alone."""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN_WORDS = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"^(?:Value error|Assertion failed), ", ""),
        (r"^Field required$", "missing"),
        (r"^(?:Extra inputs are not permitted|Unexpected keyword argument)$", "unknown"),
        (r"^Invalid JSON: ", "not valid JSON: "),
        (r"^Input should be (?:a )?valid dictionary.*", "must be an object"),
        (
            r"^Input should be (?:a )?valid list$|^Input should be a valid (?:array|tuple)$",
            "must be a list",
        ),
        (r"^Input should be a valid boolean.*", "must be true or false"),
        (r"^Input should be a valid integer.*", "must be a whole number"),
        (r"^Input should be a valid number.*", "must be a number"),
        (r"^Input should be a valid (\w+)$", r"must be a \1"),
        (r"^Input should be greater than or equal to ", "must be at least "),
        (r"^Input should be less than or equal to ", "must be at most "),
        (r"^Input should be greater than ", "must be above "),
        (r"^Input should be less than ", "must be below "),
        (r"^Input should be (?:a |an )?(?:instance of|object of type) ", "must be a "),
        (r"^Input should (?:be|have) ", "must be "),
    )
)


def plain_fault(message: str) -> str:
    """Return a message of pydantic's, as its own classes and typer raise it, in plain words."""
    for pattern, words in _PLAIN_WORDS:
        message, count = pattern.subn(words, message, count=1)
        if count and not message.startswith("Input"):
            return message
    return message


def fault_words(error: Any, most: int = 5, within: tuple[str, ...] = ()) -> str:
    """Return the faults of a pydantic ``ValidationError``: ``place: words; place: words``.

    ``within`` begins every place.
    """
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [
        f"{'.'.join(map(str, (*within, *fault['loc'])))}: {plain_fault(fault['msg'])}"
        for fault in faults[:most]
    ]
    shown += [f"and {len(faults) - most} more"] * (len(faults) > most)
    return "; ".join(fault.removeprefix(": ") for fault in shown)


def install_line(extra: str) -> str:
    """Return the command that installs an extra of the package, and where to run it."""
    return f"in a clone of trivet: pip install -c constraints.txt '.[{extra}]'"


class ExampleError(ValueError):
    """The example cannot be evaluated; ``code`` is the reason as one stable word."""

    def __init__(self, message: str, code: str = "invalid_row") -> None:
        super().__init__(message)
        self.code = code


class PageError(OSError):
    """A report cannot be written, because the disk is full or permission is missing."""


class DataError(ValueError):
    """A data file or a data specification cannot be read."""


class WindowError(ValueError):
    """Window settings leave no positions for context."""

    code = "window"


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
            side is not a Trivet server.
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


_SHOWN_CHARACTERS = 200


def served_error(
    text: str, status: int | None = None, request_id: str | None = None
) -> ExampleError | WindowError | BackendError | ServerError:
    """Return the error for a server's refusal.

    Args:
        text: Body of the answer, or data of an event.
        status: HTTP status of the answer; ``None`` of an event.
        request_id: Id of the request, if the text names none.
    """
    try:
        record = json.loads(text)
        message, error_type = str(record["error"]), str(record["error_type"])
        request_id = record.get("request_id", request_id)
    except (ValueError, KeyError, TypeError):  # from a proxy or another server
        message, error_type = repr(text[:_SHOWN_CHARACTERS]), "invalid_answer"
    if status == 413:
        return ExampleError(message, code="too_large")
    if error_type in ("backend_failed", "non_finite"):
        return BackendError(message, code=error_type)
    if error_type == "window":
        return WindowError(message)
    if status == 422 and error_type != "invalid_answer":
        return ExampleError(message, code=error_type)
    message = f"{message} (status {status}, {error_type}, request {request_id})"
    return ServerError(message, status, error_type, request_id)
