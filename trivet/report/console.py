"""Where a command's results and progress go: stdout or a file, and stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from trivet.records import DataError


def show(what: RenderableType) -> None:
    """Write something for a person to stdout."""
    Console(highlight=False).print(what)


@contextlib.contextmanager
def output(out: Path | None) -> Iterator[IO[bytes]]:
    """Open a file for results; ``None`` is stdout.

    Raises:
        DataError: The file cannot be written.
    """
    if out is None:
        yield sys.stdout.buffer
        return
    try:
        sink = out.open("wb")
    except OSError as error:
        raise DataError(f"{out}: cannot be written: {error.strerror or error}") from error
    with sink:
        yield sink


@contextlib.contextmanager
def progress(name: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Show a bar on stderr where that is a terminal; yield what moves it by one row."""
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)
        yield lambda: bar.advance(task)
