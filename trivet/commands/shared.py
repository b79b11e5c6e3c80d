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
        help="Bundle: a folder, or org/name[@revision] on the hub; default: embedded.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Threads of the backend; default: one per core."),
]
Precision = Literal["int8", "fp32", "bf16", "fp16"]
PrecisionOption = Annotated[
    Precision | None, typer.Option(help="Precision of the graph; default: the fastest.")
]
BackendName = Literal["onnx", "openvino", "tensorrt", "torch"]
BackendOption = Annotated[
    BackendName | None,
    typer.Option(
        help="Backend; tensorrt needs an engine (`trivet export`). Default: onnx; on a GPU the "
        "engine, else torch.",
        show_default=False,
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(metavar="cpu|cuda[:N]", help="Device; default: a GPU if there is one."),
]


def check_share(value: float | None) -> float | None:
    """Refuse a threshold outside [0, 1]; of a percentage say the share to write."""
    if value is not None and not 0 <= value <= 1:
        share = f"; write {value / 100:.2f} for {value:g} %" * (1 < value <= 100)
        raise typer.BadParameter(f"{value:g} is not in [0, 1]{share}")
    return value


ThresholdOption = Annotated[
    float | None,
    typer.Option(
        callback=check_share,
        metavar="SUPPORT",
        help="Threshold of support for the verdict, from 0 to 1; default: that of the bundle.",
    ),
]


def check_rate(value: float | None) -> float | None:
    """Refuse a rate outside [0.001, 0.999], as ``check_share`` does."""
    check_share(value)
    if value is not None and not 0.001 <= value <= 0.999:
        raise typer.BadParameter(f"{value:g} is not a rate from 0.001 to 0.999")
    return value


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
