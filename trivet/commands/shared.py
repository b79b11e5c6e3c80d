"""Options, exit codes and error handling that commands share."""

from __future__ import annotations

import contextlib
import logging
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.errors import install_line

SOME_FAILED, USAGE, REFUSED, NO_SEPARATION = 1, 2, 3, 4
DISK_FULL, CHANGED, LOCKED, UNDER, EMPTY, OVER_BUDGET, INTERRUPTED = 5, 6, 7, 8, 9, 10, 130

BundleOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER|NAME",
        help="Folder, or org/name[@revision] on the hub; default: embedded.",
        rich_help_panel="Model",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Threads; default: one per core.",
        rich_help_panel="Model",
    ),
]
Precision = Literal["int8", "fp32", "bf16", "fp16"]
PrecisionOption = Annotated[
    Precision | None,
    typer.Option(
        metavar="NAME",
        help="int8, fp32, bf16 or fp16; default: the fastest.",
        rich_help_panel="Model",
    ),
]
BackendName = Literal["onnx", "onnx-tensorrt", "openvino", "tensorrt", "torch"]
BackendOption = Annotated[
    BackendName | None,
    typer.Option(
        metavar="NAME",
        help="onnx, onnx-tensorrt, openvino, tensorrt or torch; default: onnx; on a GPU the "
        "engine, else torch.",
        rich_help_panel="Model",
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        metavar="cpu|cuda[:N]",
        help="Device; default: a GPU if there is one.",
        rich_help_panel="Model",
    ),
]


def check_level(value: float | None) -> float | None:
    """Refuse a number outside [0, 1]; one that may be a percentage is written as it should be."""
    if value is None or 0 <= value <= 1:
        return value
    hint = f"; for {value:g} % write {value / 100:.2f}" if 1 < value <= 100 else ""
    raise typer.BadParameter(f"{value:g} is not a number from 0 to 1{hint}")


def check_rate(value: float | None) -> float | None:
    """Refuse a number outside [0.001, 0.999], as ``check_level`` does."""
    check_level(value)
    if value is not None and not 0.001 <= value <= 0.999:
        raise typer.BadParameter(f"{value:g} is not a rate from 0.001 to 0.999")
    return value


ThresholdOption = Annotated[
    float | None,
    typer.Option(
        metavar="SUPPORT",
        callback=check_level,
        help="From 0 to 1; default: the bundle's own.",
        rich_help_panel="Model",
    ),
]


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


def parse_mapping(pairs: list[str]) -> dict[str, str]:
    """Read the pairs ``OURS=THEIRS`` of ``--map``."""
    mapping = {}
    for pair in pairs:
        ours, separator, theirs = pair.partition("=")
        if not separator or not ours or not theirs:
            raise typer.BadParameter(f"--map {pair} must be OURS=THEIRS, such as question=prompt")
        mapping[ours] = theirs
    return mapping


@contextlib.contextmanager
def say_how_files_are_read(quiet: bool) -> Iterator[None]:
    """Print on stderr in which shape and encoding a file is read, where it is not the plain one."""
    if quiet:
        yield
        return
    logger, handler = logging.getLogger("trivet.data"), logging.StreamHandler(sys.stderr)
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
    from trivet.batch.errors import (
        EmptyInputError,
        OutputFullError,
        OutputLockedError,
        RunChangedError,
        StrictError,
    )

    codes: dict[type[Exception], int] = {
        StrictError: SOME_FAILED,
        OutputFullError: DISK_FULL,
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
