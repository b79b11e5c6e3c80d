"""``trivet serve``: one backend behind HTTP."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from trivet.commands.shared import (
    BackendOption,
    BundleOption,
    DeviceOption,
    PrecisionOption,
    ThreadsOption,
    needs_extra,
)
from trivet.serve.http.settings import ServerSettings, described_fields


def _add_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Replace ``**settings`` in a command's signature by one option for each server setting."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    own = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    settings = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[field.type, typer.Option(field.option, help=field.setting.text)],
        )
        for field in described_fields()
    ]
    signature = inspect.Signature([*own, *settings])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    return command


@_add_settings
def serve(
    bundle: BundleOption = None,
    backend: BackendOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    threads: ThreadsOption = None,
    otel: Annotated[
        bool, typer.Option("--otel", help="Send spans and scores to OpenTelemetry.")
    ] = False,
    **settings: Any,
) -> None:
    """Serve over HTTP until SIGTERM; GET /docs lists the routes."""
    chosen = ServerSettings(**settings)
    with needs_extra("serve"):
        from trivet.serve.http.process import run_server
    from trivet.evaluation.evaluator import Evaluator
    from trivet.serve.http.request_log import set_up_logging

    telemetry = None
    if otel:
        with needs_extra("otel"):
            from trivet.serve.http.telemetry import Telemetry
        telemetry = Telemetry.to_collector()
    if chosen.otlp:
        with needs_extra("otel"):
            import trivet.serve.http.otlp  # noqa: F401
    set_up_logging(chosen.log_format, access_log=chosen.access_log)
    run_server(
        lambda: Evaluator(
            bundle,
            threads,
            precision=precision,
            backend=backend,
            device=device,
            max_characters=chosen.max_characters,
        ),
        chosen,
        lambda where: print(f"trivet: ready on {where}", file=sys.stderr, flush=True),
        telemetry,
    )
