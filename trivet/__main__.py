"""The command line: it and its commands are the only places that print.

Results go to stdout or to files, progress and errors to stderr. Exit codes: 0 fine, 1 some rows
could not be judged, 2 usage or input error, 3 bundle refused, 4 no clean separation found; of a
run over a log also 5 disk full, 6 begun otherwise, 7 output in use, 8 a mean below --fail-under.
"""

from __future__ import annotations

import logging
import sys
from typing import Annotated, NoReturn

import typer

import trivet
from trivet.commands.ablate import ablate
from trivet.commands.calibrate import calibrate
from trivet.commands.evaluate import evaluate
from trivet.commands.export import export
from trivet.commands.info import info
from trivet.commands.merge import merge
from trivet.commands.report import report
from trivet.commands.serve import serve
from trivet.commands.shared import REFUSED, SOME_FAILED, USAGE
from trivet.commands.test import test
from trivet.commands.train import train
from trivet.records import (
    BackendError,
    BundleError,
    ConfigError,
    DataError,
    DivergedError,
    ExampleError,
    WindowError,
)

app = typer.Typer(
    name="trivet",
    help="Judge RAG answers: faithfulness, relevance, utilization, completeness.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
for command in (evaluate, serve, merge, report, test, train, ablate, calibrate, export, info):
    app.command()(command)


def main() -> None:
    """Run the command line; turn the errors that users cause into one line and an exit code."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
    try:
        app()
    except BundleError as error:
        _fail(error, REFUSED)
    except (ConfigError, DataError, ExampleError, WindowError, BackendError, OSError) as error:
        _fail(error, USAGE)  # an OSError is a full disk or a closed pipe
    except DivergedError as error:
        _fail(error, SOME_FAILED)


def _fail(error: Exception, code: int) -> NoReturn:
    print(f"trivet: {error}", file=sys.stderr)
    sys.exit(code)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"trivet {trivet.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens.")] = False,
) -> None:
    if verbose:
        logging.getLogger("trivet").setLevel(logging.INFO)


if __name__ == "__main__":
    main()
