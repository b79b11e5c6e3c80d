"""How a run over a log ends that did not reach its end, as exit codes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import typer

from trivet.batch.errors import (
    OutputFullError,
    OutputLockedError,
    RunChangedError,
    StrictError,
)
from trivet.commands.shared import SOME_FAILED

FULL, CHANGED, LOCKED, UNDER, INTERRUPTED = 5, 6, 7, 8, 130


@contextlib.contextmanager
def run_exits() -> Iterator[None]:
    """Turn what stops a run into one line and an exit code of its own."""
    try:
        yield
    except StrictError as error:
        raise _exit(error, SOME_FAILED) from error
    except OutputFullError as error:
        raise _exit(error, FULL) from error
    except RunChangedError as error:
        raise _exit(error, CHANGED) from error
    except OutputLockedError as error:
        raise _exit(error, LOCKED) from error
    except KeyboardInterrupt as error:
        message = "interrupted; where there is an --out, the same command goes on"
        raise _exit(message, INTERRUPTED) from error


def _exit(message: object, code: int) -> typer.Exit:
    print(f"trivet: {message}", file=sys.stderr)
    return typer.Exit(code)
