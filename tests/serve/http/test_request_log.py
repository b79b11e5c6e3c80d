"""Log lines: one JSON object each, without texts of requests."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from trivet.serve.http.request_middleware import log_request, set_up_logging

SECRET = "the patient's name"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Return where the lines go; loggers are as they were afterwards."""
    names = ("", "trivet", "trivet.serve.http.request_middleware")
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.level, list(logger.handlers)) for logger in loggers]
    for handler in list(loggers[0].handlers):
        loggers[0].removeHandler(handler)  # setting up closes those it finds, pytest's among them
    yield io.StringIO()
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail() -> None:
    raise ValueError(f"could not parse '{SECRET}'")


def test_a_request_has_one_line_with_these_keys_and_no_others(stream: io.StringIO) -> None:
    set_up_logging("json", stream=stream)
    log_request("abc", "POST", "/v1/evaluate", 200, 12.345, 7)
    log_request("def", "GET", "/v1/info", 500, 0.04)
    first, second = lines(stream)
    moment = datetime.fromisoformat(first.pop("time"))
    assert moment.utcoffset() is not None
    head = {"level": "INFO", "logger": "trivet.serve.http.request_middleware", "message": "request"}
    request = {"request_id": "abc", "method": "POST", "route": "/v1/evaluate", "status": 200}
    assert first == {**head, **request, "ms": 12.3, "windows": 7}
    assert (second["level"], second["status"], "windows" in second) == ("WARNING", 500, False)


def test_an_exception_is_logged_without_its_message(stream: io.StringIO) -> None:
    set_up_logging("json", stream=stream)
    try:
        fail()
    except ValueError:
        logging.getLogger("trivet.somewhere").exception("request %s failed", "abc")
    (line,) = lines(stream)
    assert line["message"] == "request abc failed"
    assert line["exception"] == "ValueError"
    assert line["at"][-1].endswith(" fail")
    assert SECRET not in stream.getvalue()


def test_plain_text_is_one_line_as_well(stream: io.StringIO) -> None:
    set_up_logging("text", stream=stream)
    log_request("abc", "POST", "/v1/evaluate", 200, 12.3, 7)
    try:
        fail()
    except ValueError:
        logging.getLogger("trivet.somewhere").exception("it failed\nbadly")
    first, second = stream.getvalue().splitlines()
    assert first == (
        "INFO request request_id=abc method=POST route=/v1/evaluate status=200 ms=12.3 windows=7"
    )
    assert second.startswith("ERROR it failed\\nbadly ValueError at ")
    assert SECRET not in second


def test_without_an_access_log_only_failures_of_the_server_have_lines(stream: io.StringIO) -> None:
    set_up_logging("json", access_log=False, stream=stream)
    log_request("abc", "POST", "/v1/evaluate", 200, 1.0)
    log_request("def", "POST", "/v1/evaluate", 503, 1.0)
    logging.getLogger("trivet.backends.opening").info("loaded")
    assert [line.get("status") for line in lines(stream)] == [503, None]


def test_other_loggers_are_logged_once_from_warnings_on(stream: io.StringIO) -> None:
    set_up_logging("json", stream=stream)
    set_up_logging("json", stream=stream)
    logging.getLogger("somebody").info("nothing")
    logging.getLogger("somebody").warning("something")
    assert [line["message"] for line in lines(stream)] == ["something"]
