"""``trivet mcp``: tools for an assistant, over stdin and stdout."""

from __future__ import annotations

from trivet.commands.shared import (
    BackendOption,
    BundleOption,
    DeviceOption,
    PrecisionOption,
    ThreadsOption,
    needs_extra,
)


def mcp(
    bundle: BundleOption = None,
    backend: BackendOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Serve tools to an assistant: MCP over stdin and stdout."""
    with needs_extra("mcp"):
        from trivet.integrations.mcp_server import build_server
    from trivet.evaluation.evaluator import Evaluator

    evaluator = Evaluator(bundle, threads, precision=precision, backend=backend, device=device)
    build_server(evaluator).run("stdio")
