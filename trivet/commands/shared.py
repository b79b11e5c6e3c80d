"""Options, exit codes and error handling that commands share."""

from __future__ import annotations

import contextlib
import logging
import shlex
import sys
from collections.abc import Iterator

import typer

from trivet.errors import PageError, install_line

SOME_FAILED, USAGE, REFUSED, NO_SEPARATION = 1, 2, 3, 4
DISK_FULL, CHANGED, LOCKED, UNDER, EMPTY, OVER_BUDGET, INTERRUPTED = 5, 6, 7, 8, 9, 10, 130


def what_was_typed() -> str:
    """Return the command line, quoted for a shell."""
    return shlex.join(["trivet", *sys.argv[1:]])


def quiet_lightning() -> None:
    """Keep the lines that Lightning logs, its advertisements among them, away from stderr."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logger = logging.getLogger(name)
        logger.handlers.clear()  # the root logger prints its warnings
        logger.setLevel(logging.WARNING)


@contextlib.contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Turn a missing library into the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "trivet").partition(".")[0] == "trivet":
            raise
        raise end(f"{error.name} is not installed; {install_line(name)}", USAGE) from error


def parse_level(pair: str, refusal: str) -> tuple[str, float]:
    """Read ``SCORE=NUMBER``; anything else is refused with ``refusal``."""
    score, _, number = pair.partition("=")
    try:
        return score, float(number)
    except ValueError:
        raise typer.BadParameter(refusal) from None


@contextlib.contextmanager
def say_how_files_are_read(quiet: bool) -> Iterator[None]:
    """Print on stderr in which shape and encoding a file is read, where it is not the plain one."""
    if quiet:
        yield
        return
    logger, handler = logging.getLogger("trivet.logs"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("trivet: %(message)s"))
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


@contextlib.contextmanager
def run_exits() -> Iterator[None]:
    """Turn an error that stops a run over a log into one line and an exit code."""
    from trivet.batch.output import (
        EmptyInputError,
        OutputFullError,
        OutputLockedError,
        RunChangedError,
    )

    codes: dict[type[Exception], int] = {
        OutputFullError: DISK_FULL,
        PageError: DISK_FULL,
        RunChangedError: CHANGED,
        OutputLockedError: LOCKED,
        EmptyInputError: EMPTY,
    }
    try:
        yield
    except tuple(codes) as error:
        raise end(error, next(codes[kind] for kind in codes if isinstance(error, kind))) from error
    except KeyboardInterrupt as error:
        message = "interrupted; with --out, the same command resumes the run"
        raise end(message, INTERRUPTED) from error


def end(message: object, code: int) -> typer.Exit:
    """Print an error to stderr and return the exception that ends the command."""
    print(f"trivet: {message}", file=sys.stderr)
    return typer.Exit(code)
