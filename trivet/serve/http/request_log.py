"""Log lines, and one line for each request: never its text, never a key.

An exception is logged by its type and place alone: its message may quote a request.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
import traceback
from typing import Any, TextIO

from trivet.serve.http.settings import LogFormat

logger = logging.getLogger(__name__)

_FIELDS = "trivet_fields"  # attribute of a log record: further keys of its line


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
