"""``trivet serve`` and ``trivet mcp``: one backend behind HTTP, and tools for an assistant."""

from __future__ import annotations

import sys
from typing import Annotated

from trivet.commands.options import Model, options
from trivet.commands.shared import needs_extra
from trivet.serve.http.server_settings import ServerSettings
from trivet.settings import Setting


@options
def serve(
    model: Model,
    settings: ServerSettings,
    otel: Annotated[bool, Setting("Send spans and scores to OpenTelemetry.")] = False,
) -> None:
    """Serve over HTTP until SIGTERM; GET /docs lists the routes."""
    with needs_extra("serve"):
        from trivet.serve.http.process import run_server
    from trivet.serve.http.request_middleware import set_up_logging

    telemetry = None
    if otel:
        with needs_extra("serve"):
            from trivet.serve.http.telemetry import Telemetry
        telemetry = Telemetry.to_collector()
    set_up_logging(settings.log_format, access_log=settings.access_log)
    run_server(
        lambda: model.load(settings.max_characters),
        settings,
        lambda where: print(f"trivet: ready on {where}", file=sys.stderr, flush=True),
        telemetry,
    )


@options
def mcp(model: Model) -> None:
    """Serve tools to an assistant: MCP over stdin and stdout."""
    with needs_extra("mcp"):
        from trivet.integrations.mcp_server import build_server
    build_server(model.load()).run("stdio")
