"""Settings of ``Client`` and ``AsyncClient``."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from trivet.client.request_bodies import MOST_BYTES, MOST_EXAMPLES


@dataclass(frozen=True, slots=True, repr=False)
class ClientSettings:
    """Checked arguments of a client, which ``Client`` documents; no ``repr`` may show the key."""

    url: str
    key: str | None = None
    timeout_seconds: float = 60.0
    retries: int = 4
    connections: int = 8
    examples_per_request: int = 16
    most_bytes: int = MOST_BYTES
    ca_file: Path | str | None = None

    def __post_init__(self) -> None:
        """Check all values; a ``ValueError`` names the argument."""
        parts = httpx2.URL(self.url)
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ValueError(f"url must look like http://host:8080, not {self.url!r}")
        if parts.userinfo or parts.query or parts.fragment:
            raise ValueError("url must contain neither a password nor a query; pass a key as key=")
        if self.key is not None and not re.fullmatch("[!-~]+", self.key.strip()):
            raise ValueError("key must be one word of printable ASCII characters")
        if not 1 <= self.examples_per_request <= MOST_EXAMPLES:
            given = self.examples_per_request
            raise ValueError(f"examples_per_request must be from 1 to {MOST_EXAMPLES}, got {given}")
        for name, least in (("connections", 1), ("most_bytes", 1), ("retries", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if not self.timeout_seconds > 0:
            raise ValueError(f"timeout_seconds must be above 0, got {self.timeout_seconds}")

    def http_arguments(self) -> dict[str, Any]:
        """Return the arguments of an httpx2 client; redirects are not followed."""
        headers = {"user-agent": "trivet", "accept": "application/json"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key.strip()}"
        return {
            "base_url": self.url,
            "headers": headers,
            "verify": ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True,
            "follow_redirects": False,
            "limits": httpx2.Limits(
                max_connections=self.connections, max_keepalive_connections=self.connections
            ),
        }
