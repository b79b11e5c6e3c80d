"""``trivet serve``: one engine behind HTTP."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.commands.shared import (
    BackendOption,
    BundleOption,
    PrecisionOption,
    ThreadsOption,
    needs_extra,
)
from trivet.serve.http.settings import ServerSettings

_DEFAULT = ServerSettings()


def serve(
    bundle: BundleOption = None,
    backend: BackendOption = "onnx",
    precision: PrecisionOption = None,
    threads: ThreadsOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = _DEFAULT.host,
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = _DEFAULT.port,
    keys: Annotated[
        Path | None,
        typer.Option(help="File of API keys, one a line; read again when it changes."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without keys.")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, PEM.")] = None,
    max_body_bytes: Annotated[int, typer.Option(help="Of one request.")] = _DEFAULT.max_body_bytes,
    max_contexts: Annotated[int, typer.Option(help="Of one example.")] = _DEFAULT.max_contexts,
    max_characters: Annotated[int, typer.Option(help="Of one text.")] = _DEFAULT.max_characters,
    max_examples: Annotated[int, typer.Option(help="Of one request.")] = _DEFAULT.max_examples,
    max_requests: Annotated[
        int, typer.Option(help="Accepted and unanswered; more are refused.")
    ] = _DEFAULT.max_requests,
    max_queued_windows: Annotated[
        int, typer.Option(help="Laid out and not yet run; more are refused.")
    ] = _DEFAULT.max_queued_windows,
    max_connections: Annotated[
        int, typer.Option(help="Open at a time.")
    ] = _DEFAULT.max_connections,
    max_timeout_ms: Annotated[
        float, typer.Option(help="The longest time-out a request may ask for.")
    ] = _DEFAULT.max_timeout_ms,
    timeout_ms: Annotated[
        float | None,
        typer.Option(help="Of requests that name none; --max-timeout-ms if not given."),
    ] = None,
    wait_ms: Annotated[
        float, typer.Option(help="How long an engine call waits for more windows.")
    ] = _DEFAULT.wait_ms,
    header_timeout: Annotated[
        float, typer.Option(help="Seconds for a request's headers.")
    ] = _DEFAULT.header_timeout_seconds,
    body_timeout: Annotated[
        float, typer.Option(help="Seconds for a request's body.")
    ] = _DEFAULT.body_timeout_seconds,
    idle_timeout: Annotated[
        float, typer.Option(help="Seconds between two requests on one connection.")
    ] = _DEFAULT.idle_timeout_seconds,
    grace: Annotated[
        float, typer.Option(help="Seconds for work in flight after SIGTERM.")
    ] = _DEFAULT.grace_seconds,
    canary: Annotated[
        float, typer.Option(help="Seconds between two checks of the engine.")
    ] = _DEFAULT.canary_seconds,
    hung: Annotated[
        float, typer.Option(help="Seconds after which an engine call is taken for hung.")
    ] = _DEFAULT.hung_seconds,
    log_format: Annotated[
        Literal["json", "text"], typer.Option(help="Of the log, on stderr.")
    ] = _DEFAULT.log_format,
    access_log: Annotated[
        bool, typer.Option(help="A line for each request, without its text.")
    ] = _DEFAULT.access_log,
    otel: Annotated[
        bool,
        typer.Option("--otel", help="Tell a collector of requests and scores (OpenTelemetry)."),
    ] = False,
) -> None:
    """Answer over HTTP; SIGTERM finishes what was accepted. GET /docs shows how to ask."""
    settings = ServerSettings(
        host=host,
        port=port,
        max_body_bytes=max_body_bytes,
        max_contexts=max_contexts,
        max_characters=max_characters,
        max_examples=max_examples,
        max_requests=max_requests,
        max_queued_windows=max_queued_windows,
        max_connections=max_connections,
        wait_ms=wait_ms,
        default_timeout_ms=timeout_ms,
        max_timeout_ms=max_timeout_ms,
        header_timeout_seconds=header_timeout,
        body_timeout_seconds=body_timeout,
        idle_timeout_seconds=idle_timeout,
        grace_seconds=grace,
        keys_file=keys,
        insecure=insecure,
        tls_cert=tls_cert,
        tls_key=tls_key,
        canary_seconds=canary,
        hung_seconds=hung,
        log_format=log_format,
        access_log=access_log,
    )
    with needs_extra("serve"):
        from trivet.serve.http.process import run_server
    from trivet.evaluation.evaluator import Evaluator
    from trivet.serve.http.request_log import set_up_logging

    telemetry = None
    if otel:
        with needs_extra("otel"):
            from trivet.serve.http.telemetry import Telemetry
        telemetry = Telemetry.to_collector()
    set_up_logging(log_format, access_log=access_log)
    code = run_server(
        lambda: Evaluator(
            bundle,
            threads,
            precision=precision,
            backend=backend,
            max_characters=max_characters,
        ),
        settings,
        lambda where: print(f"trivet: ready on {where}", file=sys.stderr, flush=True),
        telemetry,
    )
    raise typer.Exit(code)
