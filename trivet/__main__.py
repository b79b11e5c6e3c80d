"""The command line; only this module and ``trivet.commands`` print.

Results go to stdout or files, progress and errors to stderr.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

import trivet
from trivet.commands.annotate import annotate
from trivet.commands.bundles import import_, info, publish
from trivet.commands.command import Command, Group
from trivet.commands.evaluate import evaluate
from trivet.commands.exporting import export
from trivet.commands.measuring import calibrate, test
from trivet.commands.serving import mcp, serve
from trivet.commands.shared import REFUSED, SOME_FAILED, USAGE
from trivet.commands.training import ablate, adapt, train
from trivet.commands.verdicts import report, show
from trivet.errors import (
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
    cls=Group,
    help="Evaluate RAG answers: faithfulness, relevance, utilization, completeness.",
    epilog="In Python only: trivet.guard, which holds back unsupported sentences of a stream. "
    "Exit codes: 0 success, 1 some rows failed or training diverged, 2 wrong usage or "
    "input, 3 bundle refused, 4 no justified threshold or no better model, 5 disk full or report "
    "not written, 6 input or settings changed, 7 output in use, 8 mean or share beyond a gate or "
    "worse than --baseline, 9 empty input, 10 --max-dollars reached, 130 interrupted.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # plain help: rich's tables cut option names at 80 columns
    pretty_exceptions_enable=False,
)
_PANELS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Judge answers": (evaluate, show, report),
    "Serve": (serve, mcp),
    "Measure": (test, calibrate),
    "Train": (annotate, adapt, train, ablate),
    "Bundles": (info, export, import_, publish),
}
for panel, commands in _PANELS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(cls=Command, rich_help_panel=panel)(command)


def main() -> None:
    """Run the command line; report expected errors in one line and with an exit code."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
    # The hub's library would print each of its attempts before the one sentence that says it all.
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    try:
        app(prog_name="trivet")
    except BundleError as error:
        _fail(error, REFUSED)
    except (ConfigError, DataError, ExampleError, WindowError, BackendError, OSError) as error:
        _fail(error, USAGE)  # OSError: a full disk or a closed pipe
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
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log more to stderr.")] = False,
) -> None:
    if verbose:
        logging.getLogger("trivet").setLevel(logging.INFO)


if __name__ == "__main__":
    main()
