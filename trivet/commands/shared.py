"""What the commands share: options, exit codes, and what was typed."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

SOME_FAILED, USAGE, REFUSED, NO_SEPARATION = 1, 2, 3, 4

BundleOption = Annotated[
    Path | None, typer.Option(help="Folder of a bundle; the one in the package if not given.")
]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, help="Threads of the engine; one a core if not given.")
]
Precision = Literal["int8", "fp32", "bf16", "fp16", "int8-qdq", "fp8-qdq"]
PrecisionOption = Annotated[
    Precision | None, typer.Option(help="Which graph; the fastest if not given.")
]
BackendName = Literal["onnx", "openvino", "tensorrt"]
BackendOption = Annotated[
    BackendName,
    typer.Option(
        help="openvino: faster, if installed; tensorrt: the engine that `trivet export` built here."
    ),
]


def what_was_typed() -> str:
    """Return the command, for whoever wants to type it again."""
    return shlex.join(["trivet", *sys.argv[1:]])


@contextlib.contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Turn a missing library into the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "trivet").partition(".")[0] == "trivet":
            raise
        print(
            f"trivet: {error.name} is not installed; pip install 'trivet[{name}]'", file=sys.stderr
        )
        raise typer.Exit(USAGE) from error


def parse_level(pair: str, refusal: str) -> tuple[str, float]:
    """Read ``SCORE=NUMBER``; ``refusal`` is what is said of anything else."""
    score, _, number = pair.partition("=")
    try:
        return score, float(number)
    except ValueError:
        raise typer.BadParameter(refusal) from None
