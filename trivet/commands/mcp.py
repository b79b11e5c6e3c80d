"""``trivet mcp``: tools for an assistant, over stdin and stdout."""

from __future__ import annotations

from trivet.commands.options import Model, options
from trivet.commands.shared import needs_extra


@options
def mcp(model: Model) -> None:
    """Serve tools to an assistant: MCP over stdin and stdout."""
    with needs_extra("mcp"):
        from trivet.integrations.mcp_server import build_server
    build_server(model.load()).run("stdio")
