"""Where a client sends what it is asked, and how much at a time."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from trivet.client.sending import MOST_BYTES, MOST_EXAMPLES


@dataclass(frozen=True, slots=True, repr=False)
class ClientSettings:
    """What the two clients share; the arguments of ``Client`` say what each means."""

    url: str
    key: str | None = None
    timeout_seconds: float = 60.0
    retries: int = 4
    connections: int = 8
    examples_per_request: int = 16
    most_bytes: int = MOST_BYTES
    ca_file: Path | str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            ValueError: It names the argument.
        """
        parts = httpx2.URL(self.url)
        if parts.scheme not in ("http", "https") or not parts.host:
            raise ValueError(f"url must be as http://host:8080, not {self.url!r}")
        if parts.userinfo or parts.query or parts.fragment:
            raise ValueError("url must hold neither a password nor a query; a key goes in key=")
        if self.key is not None and not _is_word(self.key.strip()):
            raise ValueError("key must be one word of printable ASCII characters")
        if not 1 <= self.examples_per_request <= MOST_EXAMPLES:
            raise ValueError(
                f"examples_per_request must be from 1 to {MOST_EXAMPLES}, the most that a server "
                f"takes; got {self.examples_per_request}"
            )
        for name, least in (("connections", 1), ("most_bytes", 1), ("retries", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if not self.timeout_seconds > 0:
            raise ValueError(f"timeout_seconds must be above 0, got {self.timeout_seconds}")

    def pool(self) -> dict[str, Any]:
        """Return the arguments of an httpx2 client: one pool, and no redirect is followed."""
        headers = {"user-agent": "trivet", "accept": "application/json"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key.strip()}"
        return {
            "base_url": self.url,
            "headers": headers,
            "verify": self._tls(),
            "follow_redirects": False,
            "limits": httpx2.Limits(
                max_connections=self.connections, max_keepalive_connections=self.connections
            ),
        }

    def _tls(self) -> ssl.SSLContext | bool:
        if self.ca_file is not None:
            return ssl.create_default_context(cafile=self.ca_file)
        return True


def _is_word(key: str) -> bool:
    return bool(key) and key.isascii() and key.isprintable() and " " not in key
